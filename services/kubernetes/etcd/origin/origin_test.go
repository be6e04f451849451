package origin

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
)

// record is one of a log, as etcd writes it (walpb.Record).
func record(kind byte, data []byte) []byte {
	body := []byte{0x08, kind, 0x10, 0x07}
	if data != nil {
		body = append(append(body, 0x1a, byte(len(data))), data...)
	}
	head := uint64(len(body))
	if pad := (8 - len(body)%8) % 8; pad > 0 {
		head |= uint64(0x80|pad) << 56
		body = append(body, make([]byte, pad)...)
	}
	return append(binary.LittleEndian.AppendUint64(nil, head), body...)
}

// made is a log that etcd has just made: member 300, cluster 5.
func made() []byte {
	return bytes.Join([][]byte{record(4, nil), record(1, []byte{0x08, 0xac, 0x02, 0x10, 0x05}), record(5, []byte{0x08, 0x00, 0x10, 0x00})}, nil)
}

func promised() []byte { return append(made(), record(2, []byte{0x08, 0x01})...) }

// preallocated is a log as it lies on a disk.
func preallocated(log []byte) []byte { return append(log, make([]byte, 4096)...) }

func walOf(d Dir) string { return filepath.Join(string(d), "wal") }

func place(t *testing.T, d Dir, log []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(walOf(d), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(walOf(d), "0000000000000000-0000000000000000.wal"), log, 0o600))
}

func newDir(t *testing.T) Dir { return Dir(filepath.Join(t.TempDir(), "member")) }

func form(nonce string) Origin {
	return Origin{Kind: formation.Form, Nonce: nonce, Token: "t", Members: map[string][]string{"a": {"https://10.0.0.1:2380"}}}
}

func TestALogThatWasJustMadeHasNoEntries(t *testing.T) {
	for _, tt := range []struct {
		name string
		log  []byte
		want bool
	}{
		{"just made", preallocated(made()), false},
		{"just made, without room", made(), false},
		{"empty", nil, false},
		{"with an entry", preallocated(promised()), true},
		{"with a vote", preallocated(append(made(), record(3, []byte{0x08, 0x02})...)), true},
		{"cut off in a record", append(made(), record(2, []byte{1, 2, 3, 4})[:12]...), true},
		{"cut off in a length", append(made(), 1, 2), true},
		{"of something else", bytes.Repeat([]byte{0xff}, 100), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDir(t)
			place(t, d, tt.log)
			home, err := d.home()
			require.NoError(t, err)
			defer home.Close()
			got, err := d.hasEntries(home)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestALogSaysWhoseItIs(t *testing.T) {
	d := newDir(t)
	member, cluster, err := d.Member()
	require.NoError(t, err)
	require.Zero(t, member+cluster, "without a log")
	place(t, d, preallocated(promised()))
	member, cluster, err = d.Member()
	require.NoError(t, err)
	require.Equal(t, []uint64{300, 5}, []uint64{member, cluster})
}

func TestADirectoryIsSettledWhateverAPowerCutLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		origin *Origin
		log    []byte
		empty  bool
		// log tells whether it is there afterwards, ran what the origin says.
		keeps, ran bool
	}{
		{name: "nothing is there", empty: true},
		{name: "data of which nobody knows how it began", log: promised(), keeps: true},
		{name: "etcd was not started yet", origin: &Origin{}},
		{name: "etcd had only made its log", origin: &Origin{}, log: preallocated(made())},
		{name: "etcd ran", origin: &Origin{}, log: preallocated(promised()), keeps: true, ran: true},
		{name: "etcd ran before", origin: &Origin{Ran: true}, log: preallocated(promised()), keeps: true, ran: true},
		{name: "what etcd had is gone", origin: &Origin{Ran: true}, empty: true, ran: true},
		{name: "what etcd had is gone, but for a log", origin: &Origin{Ran: true}, log: preallocated(made()), empty: true, keeps: true, ran: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDir(t)
			if tt.origin != nil {
				o := form("n1")
				o.Ran = tt.origin.Ran
				require.NoError(t, os.MkdirAll(string(d), 0o700))
				require.NoError(t, d.Write(o))
			}
			if tt.log != nil {
				place(t, d, tt.log)
			}
			for range 2 { // again, as after another power cut
				empty, err := d.Settle()
				require.NoError(t, err)
				require.Equal(t, tt.empty, empty)
				if _, err := os.Stat(walOf(d)); tt.keeps {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, os.ErrNotExist)
				}
				o, err := d.Read()
				require.NoError(t, err)
				require.Equal(t, tt.origin != nil, o != nil)
				if o != nil {
					require.Equal(t, tt.ran, o.Ran)
				}
			}
		})
	}
}

func TestMakeKeepsWhatIsOfTheSameIncarnation(t *testing.T) {
	d := newDir(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(string(d)), 0o700))
	require.NoError(t, d.Make(form("n1"), os.Getuid(), os.Getgid()))
	place(t, d, promised())
	require.NoError(t, d.Make(form("n1"), os.Getuid(), os.Getgid()))
	require.DirExists(t, walOf(d))
}

func TestMakePutsDataOfAnotherIncarnationAside(t *testing.T) {
	d := newDir(t)
	aside := filepath.Join(filepath.Dir(string(d)), GivenUp)
	for i, want := range []string{aside, aside + "-2"} {
		place(t, d, promised())
		require.NoError(t, d.Make(form(string(rune('a'+i))), os.Getuid(), os.Getgid()))
		require.NoDirExists(t, walOf(d))
		require.DirExists(t, filepath.Join(want, "wal"))
	}
	place(t, d, made())
	require.NoError(t, d.Make(form("x"), os.Getuid(), os.Getgid()))
	require.NoDirExists(t, aside+"-3", "what was only begun is no data")
	require.NoDirExists(t, walOf(d))
}

func TestWhatWasRemovedIsKeptOnce(t *testing.T) {
	d := newDir(t)
	for range 2 {
		place(t, d, promised())
		require.NoError(t, d.PutAside(Removed))
	}
	entries, err := os.ReadDir(filepath.Dir(string(d)))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, d.PutAside(Removed), "nothing is there")
}

func TestADamagedOriginIsAnError(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "{", "no kind": `{"nonce":"a"}`, "no nonce": `{"kind":"join"}`, "nobody to form with": `{"kind":"form","nonce":"a"}`} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			require.NoError(t, os.MkdirAll(string(d), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(string(d), file), []byte(text), 0o600))
			_, err := d.Settle()
			require.ErrorContains(t, err, "how the data of etcd began")
		})
	}
}

func TestTwoFormationsHaveTwoTokens(t *testing.T) {
	one := Token("c", map[string]string{"a": "1", "b": "2"})
	require.Equal(t, one, Token("c", map[string]string{"b": "2", "a": "1"}))
	require.NotEqual(t, one, Token("c", map[string]string{"a": "1", "b": "3"}))
	require.NotEqual(t, one, Token("c", map[string]string{"a": "1"}))
	require.NotEqual(t, one, Token("d", map[string]string{"a": "1", "b": "2"}))
}

func TestInitialClusterIsSorted(t *testing.T) {
	o := Origin{Members: map[string][]string{"b": {"https://b:1", "https://b:2"}, "a": {"https://a:1"}}}
	require.Equal(t, "a=https://a:1,b=https://b:1,b=https://b:2", o.InitialCluster())
}

// FuzzParseLog holds that no log makes the parser fail in another way than by saying so.
func FuzzParseLog(f *testing.F) {
	f.Add(made())
	f.Add(preallocated(promised()))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		err := parseLog(bytes.NewReader(data), func(_ uint64, data []byte) bool {
			_, _ = parseFields(data)
			n++
			return n < 100
		})
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
		}
	})
}
