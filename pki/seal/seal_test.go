package seal

import (
	"bytes"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
)

// fast is a work factor for tests.
const fast = 10

func TestAPassphraseOpensWhatItSealed(t *testing.T) {
	data, err := WithPassphrase([]byte("hunter2"), "correct horse battery", fast)
	require.NoError(t, err)
	require.True(t, IsSealed(data))
	require.NotContains(t, string(data), "hunter2")
	got, err := OpenPassphrase(data, "correct horse battery", 100)
	require.NoError(t, err)
	require.Equal(t, "hunter2", string(got))
	_, err = OpenPassphrase(data, "correct horse batteri", 100)
	require.ErrorIs(t, err, ErrPassphrase)
	_, err = OpenPassphrase(data, "", 100)
	require.ErrorIs(t, err, ErrPassphrase)
	_, err = OpenPassphrase(data, "correct horse battery", 6)
	require.ErrorContains(t, err, "more than 6 bytes")
}

func TestARecipientsIdentityOpensWhatIsSealedForIt(t *testing.T) {
	a, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	b, err := age.GenerateHybridIdentity()
	require.NoError(t, err)
	for _, id := range []struct{ recipient, identity, other string }{{a.Recipient().String(), a.String(), b.String()}, {b.Recipient().String(), b.String(), a.String()}} {
		data, err := ForRecipients([]byte("hunter2"), []string{id.recipient})
		require.NoError(t, err)
		got, err := OpenIdentities(data, []byte("# comment\n"+id.identity+"\n"), 100)
		require.NoError(t, err)
		require.Equal(t, "hunter2", string(got))
		_, err = OpenIdentities(data, []byte(id.other), 100)
		require.ErrorIs(t, err, ErrPassphrase)
	}
	_, err = OpenIdentities(nil, []byte("hunter2"), 100)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestWhatIsNoRecipientIsRefused(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	_, err = ForRecipients(nil, []string{id.String()})
	require.ErrorContains(t, err, "this is the secret one")
	require.NotContains(t, err.Error(), id.String())
	for _, bad := range [][]string{nil, {"age1"}, {""}, {id.Recipient().String() + "\n" + id.Recipient().String()}} {
		_, err := ForRecipients(nil, bad)
		require.Error(t, err)
	}
}

func TestWhatWasCutOrChangedIsRefused(t *testing.T) {
	data, err := WithPassphrase(bytes.Repeat([]byte("x"), 1000), "correct horse battery", fast)
	require.NoError(t, err)
	for n := 0; n < len(data); n += 37 {
		_, err := OpenPassphrase(data[:n], "correct horse battery", 10000)
		require.Error(t, err, n)
		bad := bytes.Clone(data)
		bad[n] ^= 4
		_, err = OpenPassphrase(bad, "correct horse battery", 10000)
		require.Error(t, err, n)
	}
}

func TestADearWorkFactorIsNotPaid(t *testing.T) {
	data, err := WithPassphrase(nil, "correct horse battery", fast)
	require.NoError(t, err)
	header := strings.Replace(string(data), " 10\n", " 22\n", 1)
	require.NotEqual(t, header, string(data))
	_, err = OpenPassphrase([]byte(header), "correct horse battery", 100)
	require.ErrorContains(t, err, "work factor")
}

func TestAShortPassphraseIsRefused(t *testing.T) {
	require.ErrorContains(t, CheckPassphrase("elevenchars"), "has 11 characters; take at least 12")
	require.NoError(t, CheckPassphrase("twelve chars"))
}
