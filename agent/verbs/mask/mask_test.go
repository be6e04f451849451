package mask

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const pem = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\nq1w2e3r4t5z6u7i8o9p0\n-----END PRIVATE KEY-----\n"

const keyring = "[client.admin]\n\tkey = c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\n"

// planted is a mask of a password, a key and a certificate, as programs find them.
func planted(t *testing.T) *Mask {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	write("mosquitto/mqtt-password-anna", `sesame "open"/`)
	write("mosquitto/short", "abc\n")
	write("mosquitto/weak", "kafka1\n")
	write("ceph/keyring", keyring)
	write("web/form", "<secret>&more")
	write("api/agent-key", pem)
	write("api/agent-certificate", "-----BEGIN CERTIFICATE-----\nMIIBpublicpublicpublic\n-----END CERTIFICATE-----\n")
	require.NoError(t, os.Symlink(filepath.Join(dir, "api/agent-key"), filepath.Join(dir, "link")))
	m, err := New(dir, filepath.Join(dir, "none"))
	require.NoError(t, err)
	return m
}

func TestSecretsOfTheBundleAreTakenOutInAllTheirForms(t *testing.T) {
	m := planted(t)
	secret := `sesame "open"/`
	for _, form := range []string{
		secret, `sesame \"open\"/`, "sesame+%22open%22%2F", base64.StdEncoding.EncodeToString([]byte(secret)),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	} {
		require.Equal(t, "user anna, (secret mqtt-password-anna), is in", m.Text("user anna, "+form+", is in"))
	}
	require.Equal(t, `"(secret form)"`, m.Text(`"\u003csecret\u003e\u0026more"`))
	require.Equal(t, "a line of a key: (secret agent-key)", m.Text("a line of a key: q1w2e3r4t5z6u7i8o9p0"))
	require.Equal(t, "MIIBpublicpublicpublic", m.Text("MIIBpublicpublicpublic"), "a certificate is for everybody")
	require.Equal(t, "the alphabet begins with abc", m.Text("the alphabet begins with abc"), "too short to be told from a word")
	require.Equal(t, "data: (secret keyring)", m.Text("data: "+base64.StdEncoding.EncodeToString([]byte(keyring))), "as Kubernetes has it")
	require.Equal(t, "--key (secret keyring)", m.Text("--key c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"))
}

func TestAWeakPasswordThatIsPartOfAWordDoesNotTellItself(t *testing.T) {
	m := planted(t)
	for in, want := range map[string]string{
		"kafka1":                     "(secret weak)",
		"log in with kafka1, kafka1": "log in with (secret weak), (secret weak)",
		"kafka10 and mykafka1 run":   "kafka10 and mykafka1 run",
		"kafka1kafka1 kafka1":        "kafka1kafka1 (secret weak)",
		`"a\nkafka1"`:                `"a\n(secret weak)"`,
		"q=a%3Dkafka1%26":            "q=a%3D(secret weak)%26",
		`\u0026kafka1\u0026`:         `\u0026(secret weak)\u0026`,
		"a_kafka1_b":                 "a_(secret weak)_b",
		"äkafka1":                    "äkafka1",
	} {
		require.Equal(t, want, m.Text(in), in)
	}
}

func TestWhatLooksLikeASecretIsHidden(t *testing.T) {
	m := Of(nil)
	for in, want := range map[string]string{
		"password=hunter22 ok":                                                         "password=(hidden) ok",
		`{"token": "s3cr3t-value", "user": "x"}`:                                       `{"token": "(hidden)", "user": "x"}`,
		"Authorization: Bearer abcdefgh.12345":                                         "Authorization: Bearer (hidden)",
		"get https://anna:hunter22@example.com/x":                                      "get https://anna:(hidden)@example.com/x",
		"AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQ is a key":                            "(hidden) is a key",
		"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl!":                       "jwt (hidden)!",
		"key cbdefghi-jklnrtuv-cbdefghi-jklnrtuv-cbdefghi-jklnrtuv-cbdefghi-jklnrtuv.": "key (hidden).",
		"key = AQBSdWJ5LVRlc3QtMDEyMzQ1Njc4OWFiY2RlZg==":                               "key = (hidden)",
		"AQ== is no key":                        "AQ== is no key",
		`"anna:$6$salt.salt$Zm9vYmFyYmF6/x"`:    `"anna:(hidden)"`,
		"root:$y$j9T$abcdefgh$ijklmnop:20000:":  "root:(hidden)",
		"x $2b$12$abcdefghijklmnopqrstuv":       "x (hidden)",
		"x $argon2id$v=19$m=65536,t=3$abc$def":  "x (hidden)",
		"it costs $5 or $7$":                    "it costs $5 or $7$",
		"the secret is out":                     "the secret is out",
		"tokens were renewed: 3":                "tokens were renewed: 3",
		"listening on https://127.0.0.1:8643/x": "listening on https://127.0.0.1:8643/x",
	} {
		require.Equal(t, want, m.Text(in))
	}
}

func TestAPrivateKeyIsHiddenFromItsFirstLineToItsLast(t *testing.T) {
	l := Lines{Mask: Of(nil)}
	var out []string
	for line := range strings.Lines("before\nx[1]: -----BEGIN RSA PRIVATE KEY-----\nx[1]: MIIEow\nx[1]: AAAA\nx[1]: -----END RSA PRIVATE KEY-----\nafter\n") {
		out = append(out, l.Line(strings.TrimSpace(line)))
	}
	require.Equal(t, []string{"before", "(hidden private key)", "(hidden)", "(hidden)", "(hidden)", "after"}, out)
	one := Lines{Mask: Of(nil)}
	require.Equal(t, "(hidden private key)", one.Line(`key: "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"`))
	require.Equal(t, "after", one.Line("after"))
}

func TestAPrivateKeyWithoutAnEndHidesNothingButItself(t *testing.T) {
	l := Lines{Mask: Of(nil)}
	require.Equal(t, "(hidden private key)", l.Line("x[1]: -----BEGIN PRIVATE KEY-----"))
	require.Equal(t, "(hidden)", l.Line("x[1]: MIIEow=="))
	require.Equal(t, "y[2]: token=(hidden) was taken.", l.Line("y[2]: token=abcdefgh was taken."), "it is masked as any other")
	require.Equal(t, "y[2]: word", l.Line("y[2]: word"))

	l.Line("-----BEGIN PRIVATE KEY-----")
	for range maxKeyLines {
		require.Equal(t, "(hidden)", l.Line("x[1]: word"))
	}
	require.Equal(t, "x[1]: word", l.Line("x[1]: word"))

	l.Line("x[1]: -----BEGIN RSA PRIVATE KEY-----")
	for _, line := range []string{"Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,00,11", "", "MIIE", "-----END RSA PRIVATE KEY-----"} {
		require.Equal(t, "(hidden)", l.Line(strings.TrimRight("x[1]: "+line, " ")), line)
	}
	require.Equal(t, "x[1]: word", l.Line("x[1]: word"))
}

func FuzzText(f *testing.F) {
	f.Add("password=hunter22", "hunter22")
	f.Fuzz(func(t *testing.T, text, secret string) {
		if len(secret) < least || strings.ContainsAny(secret, "()") || strings.Contains("(secret s)(hidden)", secret) {
			return
		}
		require.NotContains(t, Of(map[string]string{secret: "s"}).known("( "+secret+" )"), secret)
		_ = Of(map[string]string{secret: "secret s"}).Text(text)
	})
}
