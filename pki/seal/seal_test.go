package seal

import (
	"bytes"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
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
	require.ErrorContains(t, err, "this is the secret key")
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

// armored lays data in age's PEM-like form, as `age -a` does.
func armored(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := armor.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestANodeOpensBothForms(t *testing.T) {
	data, err := WithPassphrase([]byte("hunter2"), "correct horse battery", fast)
	require.NoError(t, err)
	for _, form := range [][]byte{data, armored(t, data), append(armored(t, data), " \n\n"...)} {
		require.True(t, IsSealed(form))
		require.NoError(t, CheckForNode(form))
		got, err := OpenOnNode(form, "correct horse battery", 100)
		require.NoError(t, err)
		require.Equal(t, "hunter2", string(got))
		_, err = OpenOnNode(form, "correct horse batteri", 100)
		require.ErrorIs(t, err, ErrPassphrase)
		_, err = OpenOnNode(form, "", 100)
		require.ErrorIs(t, err, ErrPassphrase)
		_, err = OpenOnNode(form, "correct horse battery", 6)
		require.ErrorContains(t, err, "more than 6 bytes")
	}
}

// The cost of a bundle for a node, as the documentation says it.
func TestTheNodesWorkFactorFitsASmallMachine(t *testing.T) {
	require.Equal(t, 64<<20, 128*8<<NodeWorkFactor)
	data, err := WithPassphrase([]byte("hunter2"), "correct horse battery", NodeWorkFactor)
	require.NoError(t, err)
	_, err = OpenOnNode(data, "correct horse battery", 100)
	require.NoError(t, err)
}

func TestNobodyIsAskedForWhatNoPassphraseOpens(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	keyed, err := ForRecipients([]byte("hunter2"), []string{id.Recipient().String()})
	require.NoError(t, err)
	data, err := WithPassphrase([]byte("hunter2"), "correct horse battery", fast)
	require.NoError(t, err)
	factor := func(n string) []byte { return []byte(strings.Replace(string(data), " 10\n", " "+n+"\n", 1)) }
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"for a recipient":           {keyed, "not encrypted with a passphrase"},
		"for a recipient, armored":  {armored(t, keyed), "not encrypted with a passphrase"},
		"the usual work factor":     {factor("18"), `its scrypt work factor is "18", and a node pays at most 16`},
		"a dear work factor":        {factor("60"), `its scrypt work factor is "60"`},
		"a work factor of nonsense": {factor("1e9"), `its scrypt work factor is "1e9"`},
		"no work factor":            {factor(""), `its scrypt work factor is ""`},
		"a negative one":            {factor("-1"), `its scrypt work factor is "-1"`},
		"a line without end":        {[]byte(Magic + "\n-> scrypt " + strings.Repeat("a", 1000)), "not encrypted with a passphrase"},
		"only the first line":       {[]byte(Magic + "\n"), "not encrypted with a passphrase"},
		"armor around nothing":      {armored(t, nil), "does not begin with"},
		"armor that was cut":        {armored(t, data)[:80], "its armor was changed or cut short"},
		"nothing":                   {nil, "does not begin with"},
		"a bundle in the open":      {[]byte("spore-bundle 1 0123456789abcdef\n"), "does not begin with"},
	} {
		err := CheckForNode(test.data)
		require.ErrorIs(t, err, ErrNotForNode, name)
		require.ErrorContains(t, err, test.want, name)
		_, err = OpenOnNode(test.data, "correct horse battery", 100)
		require.ErrorIs(t, err, ErrNotForNode, name)
	}
}

func FuzzOpenOnNode(f *testing.F) {
	data, err := WithPassphrase([]byte("hunter2"), "correct horse battery", 1)
	require.NoError(f, err)
	f.Add(data)
	f.Add(armored(f, data))
	f.Add([]byte(Magic + "\n-> scrypt AAAAAAAAAAAAAAAAAAAAAA 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := OpenOnNode(data, "correct horse battery", 100); err == nil {
			require.Equal(t, "hunter2", string(got), "nobody can make another without the passphrase")
		}
	})
}
