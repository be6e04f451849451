package leak

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func search(t *testing.T, s *Searcher, text string) []string {
	t.Helper()
	finds, err := s.Search(strings.NewReader(text))
	require.NoError(t, err)
	var out []string
	for _, f := range finds {
		out = append(out, f.Name)
	}
	return out
}

const password = "hZ3kW9pQ1sXv7TnB5yLc2RfD"

func TestTextIsFoundInEachForm(t *testing.T) {
	s := New()
	require.NoError(t, s.Add("the password", password+"\n"))
	raw := []byte(password)
	for name, text := range map[string]string{
		"as it is":            "a" + password + "b",
		"hex":                 hex.EncodeToString(raw),
		"upper hex":           strings.ToUpper(hex.EncodeToString(raw)),
		"base64":              base64.StdEncoding.EncodeToString(raw),
		"base64 behind one":   base64.StdEncoding.EncodeToString(append([]byte("x"), raw...)),
		"base64 behind two":   base64.StdEncoding.EncodeToString(append([]byte("xy"), raw...)),
		"base64 in a file":    base64.StdEncoding.EncodeToString([]byte("user:" + password + "\nother: text\n")),
		"base64 in two lines": wrap(base64.StdEncoding.EncodeToString([]byte("a text before it, user:"+password)), 64),
	} {
		require.NotEmpty(t, search(t, s, "some text before\n"+text+"\nand after"), name)
	}
	require.Empty(t, search(t, s, strings.ToLower(password)+hex.EncodeToString([]byte(password[:7]))))
}

func TestOfAnAgeKeyOnlyItsNumberIsASecret(t *testing.T) {
	s := New()
	key := "AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 2)[:58]
	require.NoError(t, s.Add("the key", key))
	require.Empty(t, search(t, s, `strings of a program that reads such keys: "AGE-SECRET-KEY-1"`))
	for _, text := range []string{key, base64.StdEncoding.EncodeToString([]byte("# a file\n" + key + "\n"))} {
		require.NotEmpty(t, search(t, s, text))
	}
}

func wrap(text string, width int) string {
	var out strings.Builder
	for len(text) > width {
		out.WriteString(text[:width] + "\n")
		text = text[width:]
	}
	return out.String() + text
}

func TestTheBytesOfAWritingAreFound(t *testing.T) {
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(7*i + 3)
	}
	const modhex = "cbdefghijklnrtuv"
	var recovery strings.Builder
	for i, b := range raw {
		if i > 0 && i%4 == 0 {
			recovery.WriteByte('-')
		}
		recovery.WriteString(string([]byte{modhex[b>>4], modhex[b&15]}))
	}
	for name, value := range map[string]string{
		"base64": base64.StdEncoding.EncodeToString(raw), "base64url": base64.RawURLEncoding.EncodeToString(raw), "modhex": recovery.String(),
		"uuid": fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:16]),
	} {
		s := New()
		require.NoError(t, s.Add(name, value))
		require.NotEmpty(t, search(t, s, value), name)
		require.NotEmpty(t, search(t, s, "\x00\x01"+string(raw)), name)
		require.NotEmpty(t, search(t, s, hex.EncodeToString(raw)), name)
	}
	s := New()
	require.NoError(t, s.Add("scram", `SCRAM-SHA-512=[name=admin,iterations=8192,salt="c2FsdHNhbHRzYWx0c2FsdHNhbHQ=",saltedpassword="`+base64.StdEncoding.EncodeToString(raw)+`"]`))
	require.Contains(t, strings.Join(search(t, s, "x "+base64.StdEncoding.EncodeToString(raw)), ";"), "a word of it")
	require.Empty(t, search(t, s, "SCRAM-SHA-512=[name=admin,iterations=8192,"))
}

func keyPEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestAKeyIsFoundInEachFormAndItsPublicHalfIsNot(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	number, err := ec.Bytes()
	require.NoError(t, err)
	public, signing, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, ec.Public(), ec)
	require.NoError(t, err)
	spki, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	old, err := x509.MarshalECPrivateKey(ec)
	require.NoError(t, err)

	s := New()
	require.NoError(t, s.Add("ec", keyPEM(t, ec)))
	require.NoError(t, s.Add("ed", keyPEM(t, signing)))
	lines := strings.Split(keyPEM(t, ec), "\n")
	for name, text := range map[string]string{
		"PEM":               keyPEM(t, ec),
		"first line":        lines[1],
		"second line":       lines[2],
		"PEM in JSON":       strings.ReplaceAll(lines[1]+"\n"+lines[2], "\n", `\n`),
		"DER in an archive": "\x01\x02\x03" + string(old),
		"the number":        string(number),
		"in hex":            fmt.Sprintf("%x", number),
		"openssl's EC form": wrap(base64.StdEncoding.EncodeToString(old), 64),
		"the signing seed":  string(signing.Seed()),
		"the signing key":   base64.StdEncoding.EncodeToString(signing),
	} {
		require.NotEmpty(t, search(t, s, text), name)
	}
	for name, data := range map[string][]byte{"certificate": certificate, "public key": spki} {
		text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data}))
		require.Empty(t, search(t, s, string(data)+text+hex.EncodeToString(data)), name)
		for shift := range 3 {
			require.Empty(t, search(t, s, base64.StdEncoding.EncodeToString(append(make([]byte, shift), data...))), name)
		}
	}
}

func TestWhatCannotBeSearchedForIsSaid(t *testing.T) {
	for value, want := range map[string]string{
		"": "the secret it is shorter than", "short": "the secret it is shorter than",
		"-----BEGIN PRIVATE KEY-----": "the secret it is not a PEM", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "the secret it is no key in PKCS #8",
	} {
		require.ErrorContains(t, New().Add("it", value), want)
	}
}

func TestASecretIsFoundWhereverItLies(t *testing.T) {
	s := New()
	require.NoError(t, s.Add("the password", password))
	for _, at := range []int{0, 1, 4089, 4095, 4096, chunk - 1, chunk, chunk + overlap - 5, chunk + overlap, 2*chunk + 17, 3*chunk - 30} {
		data := make([]byte, 3*chunk)
		copy(data[min(at, len(data)-len(password)):], password)
		finds, err := s.Search(bytes.NewReader(data))
		require.NoError(t, err)
		require.Contains(t, finds, Find{"the password", int64(min(at, len(data)-len(password)))})
	}
}

func TestManyFindsEndTheSearch(t *testing.T) {
	s := New()
	require.NoError(t, s.Add("the password", password))
	require.GreaterOrEqual(t, len(search(t, s, strings.Repeat(password, 1<<20))), maxFinds)
}

// Each look, and what programs and documentation have in its place.
func TestWhatASecretLooksLike(t *testing.T) {
	b64 := strings.Repeat("Ab0+/9zZ", 20)
	h64 := strings.Repeat("Ab0./9zZ", 20)
	tests := map[string]struct{ is, isNot []string }{
		"a private key in PEM": {
			[]string{
				"-----BEGIN PRIVATE KEY-----\n" + b64[:64], "-----BEGIN RSA PRIVATE KEY-----\r\n" + b64[:64], `"-----BEGIN EC PRIVATE KEY-----\n` + b64[:64],
				"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b64[:70], "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n" + b64[:64],
				"  key: |\n    -----BEGIN PRIVATE KEY-----\n    " + b64[:64],
			},
			[]string{"-----BEGIN PRIVATE KEY-----\x00-----END PRIVATE KEY-----\x00", "-----BEGIN PRIVATE KEY-----\n...\n", "-----BEGIN CERTIFICATE-----\n" + b64[:64], "-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\n"},
		},
		"an age identity":             {[]string{"AGE-SECRET-KEY-1" + strings.Repeat("Q", 58)}, []string{"AGE-SECRET-KEY-\x00", "AGE-SECRET-KEY-1…"}},
		"a verifier (crypt, MD5)":     {[]string{"root:$1$salt$" + h64[:22] + ":"}, []string{"echo $1$2", "$1$salt$short"}},
		"a verifier (crypt, bcrypt)":  {[]string{"$2b$10$" + h64[:53]}, []string{"$2b$10$short", "$2"}},
		"a verifier (crypt, SHA-256)": {[]string{"$5$rounds=5000$salt$" + h64[:43], "$5$salt$" + h64[:43]}, []string{"$5$salt$" + h64[:40] + " "}},
		"a verifier (crypt, SHA-512)": {[]string{"root:$6$salt$" + h64[:86] + ":19000:"}, []string{"$6$%s$", "$6$rounds="}},
		"a verifier (crypt, scrypt)":  {[]string{"$7$" + h64[:14] + "$" + h64[:43]}, []string{"$7$"}},
		"a verifier (crypt, yescrypt)": {
			[]string{"root:$y$j9T$" + h64[:22] + "$" + h64[:43] + ":", "$gy$j9T$" + h64[:22] + "$" + h64[:43]}, []string{"$y$", "x:$y$j9T$salt:"},
		},
		"a verifier (argon2)": {[]string{"$argon2id$v=19$m=65536,t=1,p=1$" + b64[:22]}, []string{"$argon2id$"}},
		"a verifier (mosquitto)": {
			[]string{"sensor:$7$101$" + b64[:16] + "$" + b64[:86] + "==", "sensor:$6$" + b64[:16] + "$" + b64[:86] + "=="}, []string{"$7$%d$", "%s:$6$%s$%s"},
		},
		"a verifier (SCRAM)": {[]string{`saltedpassword="` + b64[:88] + `"`}, []string{`saltedpassword="`}},
		"a keyring": {
			[]string{"[client.admin]\n\tkey = " + b64[:38] + "=="}, []string{"[client.admin]\n\tkeyring = /etc/ceph/x", "[client.%s]\n\tkey = %s"},
		},
		"a cephx key":                  {[]string{"key = AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw=="}, []string{"AQAAAAAA", b64}},
		"a Kubernetes bootstrap token": {[]string{"token-secret: f395accd246ae52d"}, []string{"token-secret: ", `"token-secret"`}},
	}
	for _, l := range looks {
		require.Contains(t, tests, l.name)
	}
	for name, test := range tests {
		s := New()
		for _, text := range test.is {
			require.Contains(t, search(t, s, text), name, text)
		}
		for _, text := range test.isNot {
			require.Empty(t, search(t, s, text), text)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	s := New()
	for range 200 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(b, err)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(b, err)
		require.NoError(b, s.Add("key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))))
	}
	data := make([]byte, 64<<20)
	_, _ = rand.Read(data)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		finds, err := s.Search(bytes.NewReader(data))
		require.NoError(b, err)
		require.Empty(b, finds)
	}
}
