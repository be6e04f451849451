//go:build e2e

package services

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/kubernetes"
)

// issuer is a small issuer of OpenID Connect (Discovery 1.0; RFC 7517, RFC 7519): a key, its description, and tokens.
type issuer struct {
	*httptest.Server
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i := &issuer{t: t, key: key}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer object
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			answer = object{
				"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token",
				"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
				"id_token_signing_alg_values_supported": []string{"ES256"},
			}
		case "/keys":
			public, err := key.PublicKey.ECDH()
			require.NoError(t, err)
			point := public.Bytes()[1:] // behind the byte that says that it is not compressed
			answer = object{"keys": []object{{
				"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1",
				"x": base64.RawURLEncoding.EncodeToString(point[:32]), "y": base64.RawURLEncoding.EncodeToString(point[32:]),
			}}}
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(i.Close)
	return i
}

// token signs what is said of somebody, with what all tokens say.
func (i *issuer) token(key *ecdsa.PrivateKey, claims object) string {
	i.t.Helper()
	all := object{"iss": i.URL, "aud": "kubernetes", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		all[name] = value
	}
	part := func(v any) string {
		data, err := json.Marshal(v)
		require.NoError(i.t, err)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	text := part(object{"alg": "ES256", "typ": "JWT", "kid": "1"}) + "." + part(all)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	require.NoError(i.t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// bearer shows a token with every request.
type bearer struct {
	token string
	http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// What oidc of kubernetes.yaml lets in, with the API server itself and an issuer.
func TestPeopleComeWithTokensOfTheIssuer(t *testing.T) {
	i := newIssuer(t)
	p := controlPlaneWith(t, func(s *kubernetes.Settings) {
		s.OIDC = &kubernetes.OIDC{
			Issuer: i.URL, ClientID: "kubernetes", UsernameClaim: "email", GroupsClaim: "groups",
			CertificateAuthority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})),
		}
	})
	require.NoError(t, p.Start(context.Background(), everyProgram...))
	p.daemon(p.cluster.Nodes)
	const review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	with := func(token string) *kubeUser {
		u := p.userWith(nil, nil)
		u.http.Transport = bearer{token, u.http.Transport}
		return u
	}
	body := object{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
	anna := object{"sub": "1", "email": "anna@plant.example", "email_verified": true, "groups": []string{"team-a", "system:masters", "spore:admin"}}
	change := func(name string, value any) object {
		out := object{}
		for k, v := range anna {
			out[k] = v
		}
		out[name] = value
		return out
	}
	var answer object
	require.Eventually(t, func() bool {
		var code int
		code, answer = with(i.token(i.key, anna)).do("POST", review, body)
		return code == http.StatusCreated
	}, time.Minute, 200*time.Millisecond, "the API server has asked the issuer for its key")
	require.Equal(t, "oidc:anna@plant.example", at(answer, "status", "userInfo", "username"))
	require.Equal(t, []any{"oidc:team-a", "oidc:system:masters", "oidc:spore:admin", "system:authenticated"}, at(answer, "status", "userInfo", "groups"))
	with(i.token(i.key, anna)).must(http.StatusForbidden, "GET", "/api/v1/namespaces/default/configmaps", nil)

	admin := p.admin()
	admin.must(http.StatusCreated, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": object{"name": "team-a"},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
		"subjects": []any{object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "oidc:team-a"}},
	})
	require.Eventually(t, func() bool {
		code, _ := with(i.token(i.key, anna)).do("GET", "/api/v1/namespaces/default/configmaps", nil)
		return code == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
	with(i.token(i.key, anna)).must(http.StatusForbidden, "GET", "/api/v1/namespaces/kube-system/configmaps", nil)

	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for name, token := range map[string]string{
		"signed by another key":     i.token(other, anna),
		"for another client":        i.token(i.key, change("aud", "shop")),
		"of another issuer":         i.token(i.key, change("iss", "https://login.example")),
		"one that has ended":        i.token(i.key, change("exp", time.Now().Add(-time.Minute).Unix())),
		"an address nobody checked": i.token(i.key, change("email_verified", false)),
		"without a name":            i.token(i.key, change("email", "")),
		"no token":                  "anna",
	} {
		code, answer := with(token).do("POST", review, body)
		require.Equal(t, http.StatusUnauthorized, code, "%s: %v", name, answer)
	}
}
