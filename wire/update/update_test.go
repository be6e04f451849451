package update

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) []ed25519.PublicKey {
	return []ed25519.PublicKey{key(n).Public().(ed25519.PublicKey)}
}

func someHead() Head {
	hash := func(s string) string { return strings.Repeat(s, 64) }
	return Head{
		Cluster: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Nodes: []string{"edge-01", "edge-02"}, Serial: 7,
		Issued: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), RootHash: hash("a"), ClusterHash: hash("b"),
		Root: Root{Size: 8192, Salt: hash("e"), UUID: strings.Repeat("0f", 16), Index: Blob{40, hash("1")}, BuildTime: 1_790_000_000},
		Boot: Blob{48, hash("2")}, Part: Blob{5, hash("c")}, UKI: Blob{9, hash("d")},
	}
}

func open(data []byte, n byte) (Head, error) {
	return Read(bufio.NewReader(bytes.NewReader(data)), public(n))
}

func TestWhatIsSignedIsReadAndTheContentFollows(t *testing.T) {
	data, err := Sign(someHead(), key(1))
	require.NoError(t, err)
	r := bufio.NewReader(strings.NewReader(string(data) + "content"))
	h, err := Read(r, append(public(2), public(1)...))
	require.NoError(t, err)
	require.Equal(t, someHead(), h)
	rest := make([]byte, 7)
	_, err = r.Read(rest)
	require.NoError(t, err)
	require.Equal(t, "content", string(rest))
	require.Equal(t, "update 7 of 2026-11-22T03:00:00Z", h.String())
}

func TestAnUpdateMayBringABootLoader(t *testing.T) {
	h := someHead()
	plain, err := Sign(h, key(1))
	require.NoError(t, err)
	require.NotContains(t, string(plain), "loader")
	h.Loader = Blob{120_000, strings.Repeat("3", 64)}
	data, err := Sign(h, key(1))
	require.NoError(t, err)
	got, err := open(data, 1)
	require.NoError(t, err)
	require.Equal(t, h, got)
	_, err = open(bytes.Replace(data, []byte(`"size":120000`), []byte(`"size":120001`), 1), 1)
	require.ErrorIs(t, err, ErrSignature)
}

func TestTheDateUntilWhichItIsNewIsSigned(t *testing.T) {
	h := someHead()
	h.Until = time.Date(2027, 2, 20, 3, 0, 0, 500, time.FixedZone("", 3600))
	data, err := Sign(h, key(1))
	require.NoError(t, err)
	got, err := open(data, 1)
	require.NoError(t, err)
	require.Equal(t, time.Date(2027, 2, 20, 2, 0, 0, 0, time.UTC), got.Until)
	_, err = open(bytes.Replace(data, []byte("2027"), []byte("2037"), 1), 1)
	require.ErrorIs(t, err, ErrSignature)
}

func TestForceIsSigned(t *testing.T) {
	h := someHead()
	plain, err := Sign(h, key(1))
	require.NoError(t, err)
	h.Force = true
	forced, err := Sign(h, key(1))
	require.NoError(t, err)
	got, err := open(forced, 1)
	require.NoError(t, err)
	require.True(t, got.Force)
	require.Equal(t, "update 7 of 2026-11-22T03:00:00Z, by force", got.String())
	for name, data := range map[string][]byte{
		"added on the way":     bytes.Replace(plain, []byte(`"serial":7`), []byte(`"serial":7,"force":true`), 1),
		"taken off on the way": bytes.Replace(forced, []byte(`,"force":true`), nil, 1),
	} {
		_, err := open(data, 1)
		require.ErrorIs(t, err, ErrSignature, name)
	}
}

func TestWhatIsRefused(t *testing.T) {
	good, err := Sign(someHead(), key(1))
	require.NoError(t, err)
	change := func(from, to string) []byte { return bytes.Replace(good, []byte(from), []byte(to), 1) }
	for name, tt := range map[string]struct {
		data []byte
		key  byte
		want error
	}{
		"another cluster's key":    {good, 2, ErrSignature},
		"a changed serial":         {change(`"serial":7`, `"serial":8`), 1, ErrSignature},
		"a newer format":           {change("spore-update 2", "spore-update 3"), 1, ErrVersion},
		"a bundle":                 {change("spore-update", "spore-bundle"), 1, ErrForm},
		"no signature":             {change("spore-update 2 ", "spore-update 2 x "), 1, ErrForm},
		"a signature that is none": {append([]byte("spore-update 2 0 !!\n"), good[bytes.IndexByte(good, '\n')+1:]...), 1, ErrForm},
		"cut in its head":          {good[:len(good)-9], 1, ErrForm},
		"nothing":                  {nil, 1, ErrForm},
		"a line without end":       {bytes.Repeat([]byte("x"), 4096), 1, ErrForm},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(tt.data, tt.key)
			require.ErrorIs(t, err, tt.want)
		})
	}
}

func TestAHeadThatSaysTooLittleOrTooMuchIsNotSigned(t *testing.T) {
	for name, change := range map[string]func(*Head){
		"no cluster":      func(h *Head) { h.Cluster = "" },
		"no nodes":        func(h *Head) { h.Nodes = nil },
		"no serial":       func(h *Head) { h.Serial = 0 },
		"a short hash":    func(h *Head) { h.RootHash = "ab" },
		"an upper hash":   func(h *Head) { h.ClusterHash = strings.Repeat("A", 64) },
		"an empty part":   func(h *Head) { h.Part.Size = 0 },
		"a UKI of a TiB":  func(h *Head) { h.UKI.Size = 1 << 40 },
		"too many nodes":  func(h *Head) { h.Nodes = make([]string, maxNodes+1) },
		"a negative size": func(h *Head) { h.UKI.Size = -1 },

		"a boot loader of a GiB": func(h *Head) { h.Loader = Blob{1 << 30, strings.Repeat("3", 64)} },
		"a loader of no size":    func(h *Head) { h.Loader = Blob{0, strings.Repeat("3", 64)} },
		"a loader of no hash":    func(h *Head) { h.Loader = Blob{9, ""} },
		"no root":                func(h *Head) { h.Root.Size = 0 },
		"half a block of a root": func(h *Head) { h.Root.Size = 6144 },
		"a root of a PiB":        func(h *Head) { h.Root.Size = 1 << 50 },
		"a short salt":           func(h *Head) { h.Root.Salt = "ab" },
		"an upper UUID":          func(h *Head) { h.Root.UUID = strings.Repeat("0F", 16) },
		"a short UUID":           func(h *Head) { h.Root.UUID = "0f" },
		"no index of the root":   func(h *Head) { h.Root.Index.Size = 0 },
		"an index of a GiB":      func(h *Head) { h.Boot.Size = 1 << 30 },
		"a time before 1970":     func(h *Head) { h.Root.BuildTime = -1 },
		"too many versions": func(h *Head) {
			h.Root.Versions = map[string]string{}
			for n := range maxVersions + 1 {
				h.Root.Versions[strconv.Itoa(n)] = "1"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := someHead()
			change(&h)
			_, err := Sign(h, key(1))
			require.ErrorIs(t, err, ErrForm)
		})
	}
}

func FuzzRead(f *testing.F) {
	good, err := Sign(someHead(), key(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	forced := someHead()
	forced.Force = true
	if good, err = Sign(forced, key(1)); err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("spore-update 2 x y\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := open(data, 1)
		if err != nil {
			return
		}
		again, err := Sign(h, key(1))
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(data, again))
	})
}
