package bundle

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const clusterID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"

func key(n byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, 32)) }

func public(n byte) ed25519.PublicKey { return key(n).Public().(ed25519.PublicKey) }

func sample() Bundle {
	return Bundle{
		Cluster: clusterID, Node: "edge-01", Issued: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Serial: 7,
		Authorities: map[string]string{"mqtt": "00ff"},
		Secrets:     map[string]string{"mqtt-password-sensor": "hunter2 <&>", "mqtt-tls-key": "-----BEGIN PRIVATE KEY-----\nMIIE\n"},
	}
}

func whose() Whose {
	return Whose{Cluster: clusterID, Node: "edge-01", Keys: []ed25519.PublicKey{public(1), public(2)}}
}

func sign(t testing.TB, b Bundle, n byte) []byte {
	data, err := Sign(b, key(n))
	require.NoError(t, err)
	return data
}

// raw signs any body, as somebody with the cluster's key and another program would.
func raw(body string) []byte {
	return []byte(format.Sign([]byte(body), key(1)) + body)
}

func TestABundleIsReadAsItWasSigned(t *testing.T) {
	for _, n := range []byte{1, 2} {
		b, err := Open(bytes.NewReader(sign(t, sample(), n)), whose())
		require.NoError(t, err)
		require.Equal(t, sample(), b)
	}
	w := whose()
	w.Cluster = strings.ToUpper(clusterID)
	_, err := Open(bytes.NewReader(sign(t, sample(), 1)), w)
	require.NoError(t, err, "an id is one in either case")
}

func TestTheSameContentHasTheSameBytes(t *testing.T) {
	require.Equal(t, sign(t, sample(), 1), sign(t, sample(), 1))
	b := sample()
	b.Issued = b.Issued.Add(300 * time.Millisecond).In(time.FixedZone("east", 3600))
	require.Equal(t, sign(t, sample(), 1), sign(t, b, 1))
}

func TestABundleOfAnotherIsRefused(t *testing.T) {
	data := sign(t, sample(), 1)
	node, cluster, keys := whose(), whose(), whose()
	node.Node, cluster.Cluster, keys.Keys = "edge-02", "0b9c4f62-7d53-4a1e-8f7c-4d1f2a3b5c6d", []ed25519.PublicKey{public(3)}
	_, err := Open(bytes.NewReader(data), node)
	require.ErrorIs(t, err, ErrOther)
	require.EqualError(t, err, `the secret bundle is for another machine: it is for node "edge-01", and this is "edge-02"`)
	_, err = Open(bytes.NewReader(data), cluster)
	require.ErrorIs(t, err, ErrOther)
	_, err = Open(bytes.NewReader(data), keys)
	require.ErrorIs(t, err, ErrSignature)
	keys.Keys = nil
	_, err = Open(bytes.NewReader(data), keys)
	require.ErrorIs(t, err, ErrSignature, "nobody trusts it without a key")
}

func TestEveryTruncatedBundleIsRefused(t *testing.T) {
	data := sign(t, sample(), 1)
	for n := range data {
		_, err := Open(bytes.NewReader(data[:n]), whose())
		require.Error(t, err, "%d of %d bytes", n, len(data))
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := Open(bytes.NewReader(append(bytes.Clone(data), '\n')), whose())
	require.ErrorIs(t, err, ErrSignature, "and one that is longer")
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	data := sign(t, sample(), 1)
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			_, err := Open(bytes.NewReader(bad), whose())
			require.Error(t, err, "bit %d of byte %d", bit, i)
		}
	}
}

func TestAnUnknownVersionIsRefusedAsSuch(t *testing.T) {
	data := bytes.Replace(sign(t, sample(), 1), []byte("spore-bundle 1 "), []byte("spore-bundle 2 "), 1)
	_, err := Open(bytes.NewReader(data), whose())
	require.ErrorIs(t, err, ErrVersion)
	_, err = Open(strings.NewReader("spore-bundle 2 something else entirely\n"), whose())
	require.ErrorIs(t, err, ErrVersion)
}

func TestBodiesThatAreSignedAndNoBundlesAreRefused(t *testing.T) {
	data := sign(t, sample(), 1)
	_, body, _ := strings.Cut(string(data), "\n")
	_, err := Open(bytes.NewReader(raw(body)), whose())
	require.NoError(t, err, "the body as it is")
	for name, bad := range map[string]string{
		"nothing":                "",
		"no JSON":                "hunter2",
		"a list":                 "[]\n",
		"blanks":                 " " + body,
		"no line end":            strings.TrimSuffix(body, "\n"),
		"something behind":       body + "{}\n",
		"an unknown key":         strings.Replace(body, `"serial":7`, `"serial":7,"more":1`, 1),
		"a key twice":            strings.Replace(body, `"serial":7`, `"serial":9,"serial":7`, 1),
		"a key in another case":  strings.Replace(body, `"serial"`, `"Serial"`, 1),
		"another order":          strings.Replace(strings.Replace(body, `"serial":7,`, "", 1), `{"cluster"`, `{"serial":7,"cluster"`, 1),
		"a time with a zone":     strings.Replace(body, "12:00:00Z", "13:00:00+01:00", 1),
		"no serial":              strings.Replace(body, `"serial":7`, `"serial":0`, 1),
		"no cluster":             strings.Replace(body, clusterID, "", 1),
		"a path for a name":      strings.Replace(body, "mqtt-tls-key", "../../etc/shadow", 1),
		"a name in capitals":     strings.Replace(body, "mqtt-tls-key", "MQTT", 1),
		"bytes that are no text": strings.Replace(body, "hunter2", "hunter\xff", 1),
		"a missing map":          strings.Replace(body, `"authorities":{"mqtt":"00ff"},`, "", 1),
	} {
		require.NotEqual(t, body, bad, name)
		_, err := Open(bytes.NewReader(raw(bad)), whose())
		require.ErrorIs(t, err, ErrForm, name)
		require.NotContains(t, err.Error(), "hunter", name)
	}
}

func TestBoundsOfABundle(t *testing.T) {
	b := sample()
	b.Secrets["big"] = strings.Repeat("x", MaxSize)
	_, err := Sign(b, key(1))
	require.ErrorContains(t, err, "more than 1048576")
	_, err = Open(strings.NewReader("spore-bundle 1 "+strings.Repeat("x", MaxSize)), whose())
	require.ErrorIs(t, err, ErrForm)

	b = sample()
	for i := range 1024 {
		b.Secrets[fmt.Sprintf("s%d", i)] = "x"
	}
	_, err = Sign(b, key(1))
	require.ErrorContains(t, err, "1026 secrets, more than 1024")
	for _, name := range []string{"", "-a", "a_b", "A", "a/b", strings.Repeat("a", 64)} {
		b := sample()
		b.Secrets[name] = "x"
		_, err := Sign(b, key(1))
		require.ErrorIs(t, err, ErrForm, name)
	}
}

func TestWhoeverCarriesABundleSeesWhoseItIs(t *testing.T) {
	good, want := sign(t, sample(), 1), sample()
	c, err := Claimed(good)
	require.NoError(t, err)
	require.Equal(t, Claim{Cluster: want.Cluster, Node: want.Node, Issued: want.Issued, Serial: want.Serial}, c)
	for name, data := range map[string][]byte{
		"nothing": nil, "no line": []byte("{}"), "cut": good[:len(good)-10], "too large": bytes.Repeat([]byte("x"), MaxSize+1),
	} {
		_, err := Claimed(data)
		require.ErrorIs(t, err, ErrForm, name)
	}
	_, err = Claimed(bytes.Replace(good, []byte(" 1 "), []byte(" 2 "), 1))
	require.ErrorIs(t, err, ErrVersion)
}

func FuzzClaimed(f *testing.F) {
	f.Add(sign(f, sample(), 1))
	f.Add([]byte("spore-bundle 1 0 0\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Claimed(data); err == nil {
			require.True(t, c.Serial > 0 && c.Node != "" && c.Cluster != "")
		}
	})
}

func FuzzOpen(f *testing.F) {
	good := sign(f, sample(), 1)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte(" 1 "), []byte(" 2 "), 1))
	f.Add([]byte("spore-bundle 1 0 0\n{}"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := Open(bytes.NewReader(data), whose()); err == nil {
			require.Equal(t, good, data, "only what was signed is opened")
			require.Equal(t, sample(), b)
		}
	})
}

// The body is reached only with a good signature, so it is fuzzed behind one.
func FuzzParse(f *testing.F) {
	_, body, _ := strings.Cut(string(sign(f, sample(), 1)), "\n")
	f.Add([]byte(body))
	f.Add([]byte(`{"cluster":"a","node":"b","issued":"2026-03-01T12:00:00Z","serial":1,"authorities":null,"secrets":null}` + "\n"))
	f.Add([]byte("null\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := parse(data)
		if err != nil {
			return
		}
		again, err := canonical(b)
		require.NoError(t, err)
		require.Equal(t, data, again, "one content has one form")
		require.NoError(t, b.check())
	})
}
