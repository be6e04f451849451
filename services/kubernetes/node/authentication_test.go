package node

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/kubernetes"
)

func TestPeoplesTokensAreOfOneIssuer(t *testing.T) {
	text := func(s *kubernetes.Settings) string {
		data, err := json.Marshal(authenticationConfig(s.People()))
		require.NoError(t, err)
		return string(data)
	}
	require.NotContains(t, text(&kubernetes.Settings{}), "jwt")
	o := &kubernetes.OIDC{Issuer: "https://login.example", ClientID: "kubernetes"}
	got := text(&kubernetes.Settings{OIDC: o})
	require.Contains(t, got, `"jwt":[{"claimMappings":{"username":{"claim":"sub","prefix":"oidc:"}},`+
		`"issuer":{"audiences":["kubernetes"],"url":"https://login.example"},`+
		`"userValidationRules":[{"expression":"user.username != 'oidc:'","message":"the token has no name"}]}]`)
	require.Contains(t, got, `"anonymous":{"conditions":[{"path":"/livez"}`)
	o.GroupsClaim, o.CertificateAuthority, o.Prefix = "groups", "PEM", "corp#"
	require.Contains(t, text(&kubernetes.Settings{OIDC: o}), `"jwt":[{"claimMappings":{"groups":{"claim":"groups","prefix":"corp#"},`+
		`"username":{"claim":"sub","prefix":"corp#"}},"issuer":{"audiences":["kubernetes"],"certificateAuthority":"PEM","url":"https://login.example"},`+
		`"userValidationRules":[{"expression":"user.username != 'corp#'","message":"the token has no name"}]}]`)
}
