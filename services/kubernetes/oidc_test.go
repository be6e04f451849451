package kubernetes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/testca"
)

func TestTheIssuersDefaults(t *testing.T) {
	require.Nil(t, (*Settings)(nil).People())
	require.Nil(t, (&Settings{}).People())
	s := &Settings{OIDC: &OIDC{Issuer: "https://login.example", ClientID: "k"}}
	require.Equal(t, &OIDC{Issuer: "https://login.example", ClientID: "k", UsernameClaim: "sub", Prefix: "oidc:"}, s.People())
	require.Empty(t, s.OIDC.Prefix, "the settings themselves stay as they are")
	s.OIDC = &OIDC{UsernameClaim: "email", GroupsClaim: "groups", Prefix: "corp:"}
	require.Equal(t, s.OIDC, s.People())
}

func TestCertificatesAsPEM(t *testing.T) {
	ca, err := testca.New("issuer")
	require.NoError(t, err)
	one := string(ca.PEM())
	_, key, err := ca.Server("login.example")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"one": {one, true}, "two": {one + one, true}, "with space": {"\n" + one + "\n\n", true},
		"none": {"text", false}, "a key": {string(key), false}, "one and a key": {one + string(key), false},
		"one and a text": {one + "text", false}, "a damaged one": {strings.Replace(one, "MII", "AII", 1), false},
		"far too many": {strings.Repeat(one, 200), false},
	} {
		require.Equal(t, tc.want, isCertificates(tc.text), name)
	}
}
