package signedline

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var format = Format{Magic: "spore-test", Version: "1"}

func testKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func public(keys ...ed25519.PrivateKey) (out []ed25519.PublicKey) {
	for _, k := range keys {
		out = append(out, k.Public().(ed25519.PublicKey))
	}
	return out
}

func TestOnlyTheBodyThatWasSignedIsTaken(t *testing.T) {
	key, other := testKey(1), testKey(2)
	body := []byte(`{"a":1}`)
	line, end := strings.CutSuffix(format.Sign(body, key), "\n")
	require.True(t, end)
	require.LessOrEqual(t, len(line), Max)
	for name, c := range map[string]struct {
		format Format
		body   string
		keys   []ed25519.PublicKey
		want   bool
	}{
		"by the key":                    {format, `{"a":1}`, public(key), true},
		"by the second of two keys":     {format, `{"a":1}`, public(other, key), true},
		"by another key":                {format, `{"a":1}`, public(other), false},
		"with no key":                   {format, `{"a":1}`, nil, false},
		"with a key of another length":  {format, `{"a":1}`, []ed25519.PublicKey{public(key)[0][:31]}, false},
		"another body":                  {format, `{"a":2}`, public(key), false},
		"a body that was cut short":     {format, `{"a":1`, public(key), false},
		"a body of another kind":        {Format{"spore-other", "1"}, `{"a":1}`, public(key), false},
		"a body of an older version":    {Format{"spore-test", "0"}, `{"a":1}`, public(key), false},
		"where the words run into each": {Format{"spore-test 1", ""}, `{"a":1}`, public(key), false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := format.Parse(line)
			require.NoError(t, err)
			l.format = c.format
			require.Equal(t, c.want, l.Verify([]byte(c.body), c.keys))
		})
	}
}

func TestLinesThatAreMalformed(t *testing.T) {
	good := strings.TrimSuffix(format.Sign(nil, testKey(1)), "\n")
	words := strings.Split(good, " ")
	for name, c := range map[string]struct{ line, want string }{
		"an empty one":           {"", "does not begin with a line `spore-test 1 …`"},
		"one word":               {"spore-test", "does not begin with a line"},
		"another kind":           {"x" + good, "does not begin with a line"},
		"too long":               {good + strings.Repeat("x", Max), "does not begin with a line"},
		"another version":        {"spore-test 2 a b", `format "2" is unknown, this program has 1`},
		"three words":            {strings.Join(words[:3], " "), "has 3 words, not 4"},
		"a blank at the end":     {good + " ", "has 5 words, not 4"},
		"a signature cut short":  {good[:len(good)-4], "its signature is malformed"},
		"base64 with a line end": {good + "\n", "its signature is malformed"},
		"and with that of a tty": {good + "\r", "its signature is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := format.Parse(c.line)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, name == "another version", err != nil && strings.Contains(err.Error(), "is unknown"))
		})
	}
	_, err := format.Parse("spore-test 2 a b")
	require.ErrorIs(t, err, ErrVersion)
}

func FuzzParse(f *testing.F) {
	f.Add(strings.TrimSuffix(format.Sign([]byte("x"), testKey(1)), "\n"))
	f.Add("spore-test 1 0011223344556677 AAAA")
	f.Add("spore-test  1")
	f.Fuzz(func(t *testing.T, line string) {
		l, err := format.Parse(line)
		if err == nil {
			require.False(t, l.Verify([]byte("not what was signed"), public(testKey(1), testKey(3))))
		}
	})
}
