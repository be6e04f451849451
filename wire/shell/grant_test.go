package shell

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

var issued = time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)

func key(seed byte) (ed25519.PrivateKey, []ed25519.PublicKey) {
	k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return k, []ed25519.PublicKey{k.Public().(ed25519.PublicKey)}
}

func good() Grant {
	return Grant{
		Cluster: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Node: "edge-1", ID: strings.Repeat("0a", 16),
		Issued: issued, Until: issued.Add(time.Hour), Minutes: 60, Certificate: strings.Repeat("c1", 32),
		Reason: "the state does not mount: größer <als> \"gedacht\"",
	}
}

func TestAGrantIsReadAsItWasSigned(t *testing.T) {
	private, public := key(1)
	data, err := Sign(good(), private)
	require.NoError(t, err)
	require.Regexp(t, `\Aspore-shell 1 [0-9a-f]{16} \S+\n\{"cluster":.*\}\n\z`, string(data))
	_, other := key(2)
	g, err := Open(data, append(other, public...))
	require.NoError(t, err)
	require.Equal(t, good(), g)
	g, err = Peek(data)
	require.NoError(t, err)
	require.Equal(t, good(), g)
}

func TestAGrantOfAnotherSignerOrWithAChangedByteIsRefused(t *testing.T) {
	private, public := key(1)
	data, err := Sign(good(), private)
	require.NoError(t, err)
	_, other := key(2)
	for _, keys := range [][]ed25519.PublicKey{nil, other} {
		_, err = Open(data, keys)
		require.ErrorIs(t, err, ErrSignature)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		_, err := Open(changed, public)
		require.Error(t, err, "byte %d", i)
	}
	for n := range data {
		_, err := Open(data[:n], public)
		require.Error(t, err, "%d bytes", n)
	}
	_, err = Open(append(bytes.Clone(data), '\n'), public)
	require.Error(t, err)
	// What the key signed for another purpose is no grant.
	update := bytes.Replace(data, []byte("spore-shell"), []byte("spore-update"), 1)
	_, err = Open(update, public)
	require.ErrorContains(t, err, "it does not begin with a line `spore-shell 1")
}

func TestWhatIsNoGrantIsNotSigned(t *testing.T) {
	private, _ := key(1)
	for name, change := range map[string]func(*Grant){
		"no cluster":         func(g *Grant) { g.Cluster = "" },
		"cluster in capital": func(g *Grant) { g.Cluster = "6F" },
		"no node":            func(g *Grant) { g.Node = "" },
		"a node as escape":   func(g *Grant) { g.Node = "\x1b[2J" },
		"a long node":        func(g *Grant) { g.Node = strings.Repeat("n", 254) },
		"no id":              func(g *Grant) { g.ID = "" },
		"a short id":         func(g *Grant) { g.ID = "0a" },
		"an id of capitals":  func(g *Grant) { g.ID = strings.Repeat("0A", 16) },
		"a path as id":       func(g *Grant) { g.ID = "../../../../etc/passwd0000000000" },
		"no certificate":     func(g *Grant) { g.Certificate = "" },
		"two hours":          func(g *Grant) { g.Minutes = 120 },
		"no time":            func(g *Grant) { g.Minutes = 0 },
		"time back":          func(g *Grant) { g.Minutes = -1 },
		"for two days":       func(g *Grant) { g.Until = g.Issued.Add(48 * time.Hour) },
		"ends before":        func(g *Grant) { g.Until = g.Issued },
		"never issued":       func(g *Grant) { g.Issued = time.Time{} },
		"half a second":      func(g *Grant) { g.Until = g.Until.Add(time.Second / 2) },
		"another zone":       func(g *Grant) { g.Until = g.Until.In(time.FixedZone("x", 3600)) },
		"no reason":          func(g *Grant) { g.Reason = "" },
		"a blank reason":     func(g *Grant) { g.Reason = " " },
		"a reason of lines":  func(g *Grant) { g.Reason = "a\nb" },
		"a reason to obey":   func(g *Grant) { g.Reason = "a\u202eb" },
		"a broken reason":    func(g *Grant) { g.Reason = "a\xffb" },
		"a long reason":      func(g *Grant) { g.Reason = strings.Repeat("x", MaxReason+1) },
	} {
		g := good()
		change(&g)
		_, err := Sign(g, private)
		require.Error(t, err, name)
	}
}

func TestASignedTextThatIsNoGrantIsRefused(t *testing.T) {
	private, public := key(1)
	body, err := Sign(good(), private)
	require.NoError(t, err)
	_, text, _ := strings.Cut(strings.TrimSuffix(string(body), "\n"), "\n")
	for name, body := range map[string]string{
		"two hours":       strings.Replace(text, `"minutes":60`, `"minutes":120`, 1),
		"a blank":         strings.Replace(text, `"minutes":60`, `"minutes": 60`, 1),
		"another key":     strings.Replace(text, `"minutes":60`, `"minutes":60,"more":1`, 1),
		"a key twice":     strings.Replace(text, `"minutes":60`, `"minutes":60,"minutes":60`, 1),
		"a key in letter": strings.Replace(text, `"minutes"`, `"Minutes"`, 1),
		"a list":          "[]",
		"nothing":         "",
		"two objects":     text + text,
	} {
		_, err := Open([]byte(format.Sign([]byte(body), private)+body+"\n"), public)
		require.ErrorContains(t, err, "malformed", name)
	}
	_, err = Open(bytes.Repeat([]byte("x"), MaxGrant+1), public)
	require.ErrorContains(t, err, "at most")
}

func TestAGrantHoldsForOnePlaceAndOnePerson(t *testing.T) {
	here := func() Here {
		g := good()
		return Here{Cluster: strings.ToUpper(g.Cluster), Node: g.Node, Now: issued, Certificate: g.Certificate}
	}
	require.NoError(t, good().For(here()))
	late := here()
	late.Now = good().Until
	require.NoError(t, good().For(late))
	behind := here()
	behind.Now = issued.AddDate(-10, 0, 0)
	require.NoError(t, good().For(behind), "a wrong clock is a reason for a shell")
	for why, change := range map[string]func(*Here){
		"it is for another cluster":                      func(h *Here) { h.Cluster = "other" },
		"it is for edge-1, and this is edge-2":           func(h *Here) { h.Node = "edge-2" },
		"it is for another certificate":                  func(h *Here) { h.Certificate = strings.Repeat("c2", 32) },
		"it could be used until 2026-11-26T09:00:00Z":    func(h *Here) { h.Now = good().Until.Add(time.Second) },
		"and it is 2026-11-26T09:00:01Z here":            func(h *Here) { h.Now = good().Until.Add(time.Second) },
		"or sign one for the certificate that you use":   func(h *Here) { h.Certificate = "" },
		"the grant is refused: it is for another cluste": func(h *Here) { h.Cluster = "" },
	} {
		h := here()
		change(&h)
		err := good().For(h)
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, why)
	}
}

func TestIDs(t *testing.T) {
	id, err := NewID(rand.Reader)
	require.NoError(t, err)
	require.True(t, IsID(id))
	_, err = NewID(iotest.ErrReader(io.ErrUnexpectedEOF))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	for _, bad := range []string{"", "x", hex.EncodeToString(make([]byte, 17)), "/" + id[1:], strings.ToUpper("0a" + id[2:])} {
		require.False(t, IsID(bad), bad)
	}
}

func FuzzGrant(f *testing.F) {
	private, public := key(1)
	data, err := Sign(good(), private)
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte("spore-shell 1 x y\n{}\n"))
	f.Add([]byte(format.Sign([]byte("{}"), private) + "{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Open(data, public)
		peeked, failed := Peek(data)
		if err != nil {
			if failed == nil && !errors.Is(err, ErrSignature) {
				t.Fatalf("what can be read fails by its signature alone: %v", err)
			}
			return
		}
		if failed != nil || g != peeked {
			t.Fatalf("two readings: %v", failed)
		}
		again, err := Sign(g, private)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("what is taken is what would be signed: %v", err)
		}
	})
}
