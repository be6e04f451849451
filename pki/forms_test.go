package pki

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"spore/services/service"
)

func TestEveryFormIsWhatItsReaderTakes(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	patterns := map[string]string{
		service.FormPassword: `^[A-Za-z0-9]{24}$`,
		service.FormKey:      `^[A-Za-z0-9+/]{43}=$`,
		service.FormUUID:     `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
		service.FormCephx:    `^AQ[A-Za-z0-9+/]{36}==$`, // ceph-authtool --gen-print-key
		service.FormKafkaID:  `^[A-Za-z0-9_][A-Za-z0-9_-]{21}$`,
		service.FormSCRAM:    `^SCRAM-SHA-512=\[iterations=8192,salt="[A-Za-z0-9+/]{32}",saltedpassword="[A-Za-z0-9+/]{86}=="\]$`,
		service.FormAge:      `^AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}$`,
		service.FormRecovery: `^([cbdefghijklnrtuv]{8}-){7}[cbdefghijklnrtuv]{8}$`, // systemd-cryptenroll --recovery-key
	}
	require.Len(t, patterns, len(forms))
	for name, make := range forms {
		seen := map[Hidden]bool{}
		for range 200 {
			v, err := make(random, begin, "hunter two")
			require.NoError(t, err)
			require.Regexp(t, regexp.MustCompile(patterns[name]), string(v), name)
			require.False(t, seen[v], "%s repeats", name)
			seen[v] = true
		}
	}
}

func TestACephxKeyIsAsCephEncodesIt(t *testing.T) {
	v, err := cephKey(rand.NewChaCha8([32]byte{2}), begin, "")
	require.NoError(t, err)
	b, err := base64.StdEncoding.DecodeString(string(v))
	require.NoError(t, err)
	require.Len(t, b, 28)
	require.EqualValues(t, 1, binary.LittleEndian.Uint16(b), "CEPH_CRYPTO_AES")
	require.EqualValues(t, begin.Unix(), binary.LittleEndian.Uint32(b[2:]))
	require.Zero(t, binary.LittleEndian.Uint32(b[6:]))
	require.EqualValues(t, 16, binary.LittleEndian.Uint16(b[10:]))
}

func TestAnAgeIdentityIsOneOfAge(t *testing.T) {
	random := rand.NewChaCha8([32]byte{4})
	for range 200 {
		v, err := forms[service.FormAge](random, begin, "")
		require.NoError(t, err)
		id, err := age.ParseX25519Identity(string(v))
		require.NoError(t, err)
		require.Equal(t, string(v), id.String())
	}
}

func TestAnIdIsAUUID(t *testing.T) {
	v, err := forms[service.FormUUID](rand.NewChaCha8([32]byte{3}), begin, "")
	require.NoError(t, err)
	id, err := uuid.Parse(string(v))
	require.NoError(t, err)
	require.EqualValues(t, 4, id.Version())
}

// The salted password of RFC 5802 is PBKDF2, and the password is not in it.
func TestTheSCRAMCredentialIsOfItsPassword(t *testing.T) {
	v, err := scram(rand.NewChaCha8([32]byte{4}), begin, "hunter two")
	require.NoError(t, err)
	m := regexp.MustCompile(`salt="([^"]*)",saltedpassword="([^"]*)"`).FindStringSubmatch(string(v))
	salt, err := base64.StdEncoding.DecodeString(m[1])
	require.NoError(t, err)
	want, err := pbkdf2.Key(sha512.New, "hunter two", salt, 8192, 64)
	require.NoError(t, err)
	require.Equal(t, base64.StdEncoding.EncodeToString(want), m[2])
	require.False(t, strings.Contains(string(v), "hunter two"))
}
