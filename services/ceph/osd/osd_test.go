package osd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
)

const (
	// testFSID is that of the cluster whose labels are in testdata/labels; ceph_test.go has made them.
	testFSID = "11112222-3333-4444-8555-666677778888"
	// testKey is a key of Ceph's: 16 bytes that say "0123456789abcdef".
	testKey = "AQBmZmZmAAAAABAAMDEyMzQ1Njc4OWFiY2RlZg=="
)

func sample(t testing.TB, name string) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", "labels", name))
	require.NoError(t, err)
	return data
}

// sealed puts the right checksum behind what was changed.
func sealed(b []byte) []byte {
	b = bytes.Clone(b)
	end := 66 + int(binary.LittleEndian.Uint32(b[62:]))
	binary.LittleEndian.PutUint32(b[end:], ^crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func changed(b []byte, at int, with ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], with)
	return b
}

func TestTheLabelsOfCephItself(t *testing.T) {
	ready, err := readLabel(bytes.NewReader(sample(t, "ready")))
	require.NoError(t, err)
	require.Equal(t, "c0ffee00-0000-8000-8000-000000000001", ready.UUID.String())
	require.EqualValues(t, 4<<30, ready.Size)
	require.Equal(t, "0", ready.Meta["whoami"])
	require.Equal(t, "ready", ready.Meta["ready"])
	require.Equal(t, "yes", ready.Meta["mkfs_done"])
	require.Equal(t, testFSID, ready.Meta["ceph_fsid"])
	require.Len(t, ready.Meta["osd_key"], 40)
	for _, without := range []string{"mkfs_done", "ready"} {
		l, err := readLabel(bytes.NewReader(sample(t, "without-"+without)))
		require.NoError(t, err)
		require.Empty(t, l.Meta[without])
		require.Empty(t, l.Meta["ready"])
	}
	require.Equal(t, sample(t, "ready"), sealed(sample(t, "ready")), "the checksum is Ceph's")
}

func TestReadLabelRefuses(t *testing.T) {
	ready := sample(t, "ready")
	for name, tc := range map[string]struct {
		data []byte
		err  string
	}{
		"nothing":                     {make([]byte, labelSize), "has no label"},
		"something else":              {changed(ready, 0, 'x'), "has no label"},
		"half of a block":             {ready[:2000], "read its label"},
		"a flipped bit":               {changed(ready, 200, ready[200]^1), "damaged"},
		"a newer version":             {sealed(changed(ready, 61, 3)), "the version 3, and 2 is the newest"},
		"a length beyond the block":   {changed(ready, 62, 0xff, 0xff), "damaged"},
		"a huge length":               {changed(ready, 62, 0xff, 0xff, 0xff, 0xff), "damaged"},
		"a UUID that is none":         {changed(ready, len(magic), 'x'), "damaged"},
		"another UUID in text":        {sealed(changed(ready, len(magic), 'd')), "damaged"},
		"a string beyond the content": {sealed(changed(ready, 66+16+8+8, 0xff, 0x0f)), "damaged"},
		"a huge string":               {sealed(changed(ready, 66+16+8+8, 0, 0, 0, 0x7f)), "damaged"},
		"a huge number of strings":    {sealed(changed(ready, 66+16+8+8+4+4, 0xff, 0xff, 0xff, 0xff)), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readLabel(bytes.NewReader(tc.data))
			require.ErrorContains(t, err, tc.err)
		})
	}
}

func FuzzReadLabel(f *testing.F) {
	for _, name := range []string{"ready", "without-mkfs_done", "without-ready"} {
		f.Add(sample(f, name)[66:])
	}
	head := sample(f, "ready")[:66]
	f.Fuzz(func(t *testing.T, body []byte) {
		b := make([]byte, labelSize)
		n := copy(b[copy(b, head):labelSize-4], body)
		binary.LittleEndian.PutUint32(b[62:], uint32(n))
		if l, err := readLabel(bytes.NewReader(sealed(b))); err == nil {
			require.LessOrEqual(t, len(l.Meta), labelSize)
		}
	})
}

func TestTheKeyOfAnOSDIsAlwaysTheSame(t *testing.T) {
	a, b := gpt.MustParseGUID("c0ffee00-0000-8000-8000-000000000001"), gpt.MustParseGUID("c0ffee00-0000-8000-8000-000000000002")
	key, err := Key(testKey, a)
	require.NoError(t, err)
	again, err := Key(testKey+"\n", a)
	require.NoError(t, err)
	require.Equal(t, key, again)
	other, err := Key(testKey, b)
	require.NoError(t, err)
	require.NotEqual(t, key, other)
	raw, err := base64.StdEncoding.DecodeString(key)
	require.NoError(t, err)
	require.Equal(t, "\x01\x00\x66\x66\x66\x66\x00\x00\x00\x00\x10\x00", string(raw[:12]), "the form of testKey")
	require.Len(t, raw, 28)
	for _, bad := range []string{"", "no key", "AQBm"} {
		_, err := Key(bad, a)
		require.ErrorContains(t, err, "not a Ceph key")
	}
}

// device is a file with what a test puts at its beginning.
func device(t *testing.T, begin []byte) string {
	path := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(path, begin, 0o600))
	require.NoError(t, os.Truncate(path, 8<<20))
	return path
}

func options(t *testing.T, device string) Options {
	return Options{
		Device: device, UUID: gpt.MustParseGUID("c0ffee00-0000-8000-8000-000000000001"), FSID: testFSID, BootstrapKey: testKey, Dir: t.TempDir(),
		Say: func(s string) { t.Log(s) }, Waiting: func(string) {}, Sleep: func(context.Context, time.Duration) error { return nil },
		Exec: func(_ context.Context, _ []byte, name string, args ...string) ([]byte, error) {
			t.Fatalf("%s %v is run", name, args)
			return nil, nil
		},
	}
}

func TestAnOSDThatIsThereIsStartedFromItsDiskAlone(t *testing.T) {
	o := options(t, device(t, sample(t, "ready")))
	for range 2 {
		id, err := Prepare(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, 0, id)
	}
	l, err := readLabel(bytes.NewReader(sample(t, "ready")))
	require.NoError(t, err)
	for name, want := range map[string]string{
		"type": "bluestore\n", "fsid": "c0ffee00-0000-8000-8000-000000000001\n", "whoami": "0\n", "ceph_fsid": testFSID + "\n",
		"keyring": "[osd.0]\nkey = " + l.Meta["osd_key"] + "\n",
	} {
		got, err := os.ReadFile(filepath.Join(o.Dir, Data, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), name)
	}
	target, err := os.Readlink(filepath.Join(o.Dir, Data, "block"))
	require.NoError(t, err)
	require.Equal(t, o.Device, target)
}

func TestTheNumberOfAnOSDIsOnItsDisk(t *testing.T) {
	id, found, err := Number(device(t, sample(t, "ready")))
	require.NoError(t, err)
	require.True(t, found)
	require.Zero(t, id)
	_, found, err = Number(device(t, nil))
	require.NoError(t, err)
	require.False(t, found, "none was made there")
	_, _, err = Number(device(t, changed(sample(t, "ready"), 100, 'x')))
	require.ErrorContains(t, err, "damaged")
	_, _, err = Number("/nowhere")
	require.ErrorContains(t, err, "/nowhere")
}

func TestWhatIsNoOSDOfOursIsRefusedAndLeft(t *testing.T) {
	ready := sample(t, "ready")
	ext4 := make([]byte, 4096)
	copy(ext4[1024+0x38:], "\x53\xef")
	at := bytes.Index(ready, []byte(testFSID))
	for name, tc := range map[string]struct {
		begin  []byte
		change func(*Options)
		err    string
	}{
		"a file system":              {ext4, nil, "it holds an ext2, ext3 or ext4 file system, and no OSD; nothing was changed"},
		"something unknown":          {[]byte("x"), nil, "it holds something unknown, and no OSD"},
		"something behind":           {append(make([]byte, 1<<20-1), 1), nil, "it holds something unknown"},
		"an OSD of another cluster":  {sealed(changed(ready, at, 'f')), nil, "it holds an OSD of the Ceph cluster"},
		"the OSD of another disk":    {ready, func(o *Options) { o.UUID[15] = 2 }, "it was copied from another disk; nothing was changed"},
		"an OSD that is damaged":     {changed(ready, 300, ready[300]^1), nil, "is damaged; nothing was changed"},
		"a device that is not there": {ready, func(o *Options) { o.Device += "x" }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := device(t, tc.begin)
			o := options(t, path)
			if tc.change != nil {
				tc.change(&o)
			}
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = Prepare(context.Background(), o)
			require.ErrorContains(t, err, tc.err)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after))
		})
	}
}

func TestANewOSDWaitsForTheMonitorsAndIsMadeWithTheKeyThatTheyWereGiven(t *testing.T) {
	for name, begin := range map[string][]byte{"empty": nil, "cut off early": sample(t, "without-mkfs_done"), "cut off late": sample(t, "without-ready")} {
		t.Run(name, func(t *testing.T) {
			o := options(t, device(t, begin))
			if begin != nil {
				l, err := readLabel(bytes.NewReader(begin))
				require.NoError(t, err)
				o.UUID = l.UUID
			}
			var waited []time.Duration
			o.Sleep = func(_ context.Context, d time.Duration) error { waited = append(waited, d); return nil }
			key, err := Key(testKey, o.UUID)
			require.NoError(t, err)
			o.Exec = func(_ context.Context, input []byte, name string, args ...string) ([]byte, error) {
				if name == cephProgram {
					require.JSONEq(t, `{"cephx_secret": "`+key+`"}`, string(input))
					require.Equal(t, o.UUID.String(), args[len(args)-1])
					if len(waited) < 6 {
						return nil, errors.New("no monitor")
					}
					return []byte("7\n"), nil
				}
				file, err := os.ReadFile(filepath.Join(o.Dir, "mkfs.key"))
				require.NoError(t, err)
				require.Equal(t, key, string(file))
				_, _, err = o.look()
				require.NoError(t, err)
				what, err := os.ReadFile(o.Device)
				require.NoError(t, err)
				require.Equal(t, len(what), bytes.Count(what, []byte{0}), "mkfs finds nothing of an earlier attempt")
				return nil, errors.New("mkfs was run")
			}
			_, err = Prepare(context.Background(), o)
			require.ErrorContains(t, err, "mkfs was run")
			require.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 15e9, 15e9}, waited)
			require.NoFileExists(t, filepath.Join(o.Dir, "mkfs.key"))
		})
	}
	t.Run("the end of the context ends the wait", func(t *testing.T) {
		o := options(t, device(t, nil))
		ctx, cancel := context.WithCancel(context.Background())
		o.Exec = func(context.Context, []byte, string, ...string) ([]byte, error) {
			cancel()
			return nil, errors.New("cut off")
		}
		_, err := Prepare(ctx, o)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("a number that is none is an error", func(t *testing.T) {
		o := options(t, device(t, nil))
		o.Exec = func(context.Context, []byte, string, ...string) ([]byte, error) { return []byte("yes"), nil }
		_, err := Prepare(context.Background(), o)
		require.ErrorContains(t, err, `the number "yes"`)
	})
}
