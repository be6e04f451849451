package kubernetes

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"strings"

	"spore/cluster/check"
	"spore/cluster/form"
)

var (
	claimForm  = form.New(`^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$`)
	clientForm = form.New(`^[!-~]{1,256}$`)
	prefixForm = form.New(`^[a-z0-9][a-z0-9._/-]{0,61}[:#]$`)
)

// maxIssuerAuthority bounds the certificates that an issuer is verified with, in bytes.
const maxIssuerAuthority = 64 << 10

// checkOIDC checks whom people's tokens are from.
func checkOIDC(k *check.Checker, file check.File, s *Settings) {
	o, p := s.OIDC, check.In(file, "oidc")
	if o == nil {
		return
	}
	if file.Has("oidc", "issuer") {
		u, err := url.Parse(o.Issuer)
		switch {
		case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil, u.RawQuery != "", u.Fragment != "":
			k.Errorf(p.Then("issuer"), "%q is not the address of an issuer; write it as https://login.example/realm, "+
				"without a user, ? or #", check.Clip(o.Issuer))
		case o.Issuer == s.ServiceAccountIssuer():
			k.Errorf(p.Then("issuer"), "%s issues the tokens of service accounts; people's are from another issuer",
				check.Clip(o.Issuer))
		}
	}
	if file.Has("oidc", "clientID") && !clientForm.MatchString(o.ClientID) {
		k.Errorf(p.Then("clientID"), "%q is not the id of a client; write 1 to 256 characters without spaces",
			check.Clip(o.ClientID))
	}
	for key, claim := range map[string]string{"usernameClaim": o.UsernameClaim, "groupsClaim": o.GroupsClaim} {
		if claim != "" && !claimForm.MatchString(claim) {
			k.Errorf(p.Then(key), "%q is not the name of a claim; write one such as email or groups", check.Clip(claim))
		}
	}
	switch prefix := o.Prefix; {
	case prefix == "":
	case !prefixForm.MatchString(prefix):
		k.Errorf(p.Then("prefix"), "the prefix %q is not one; write lower-case letters and digits with : or # at the "+
			"end, such as oidc:", check.Clip(prefix))
	case strings.HasPrefix(prefix, "system:") || strings.HasPrefix(prefix, "spore:"):
		k.Errorf(p.Then("prefix"), "names that begin with %s are given by certificates alone; choose another prefix, "+
			"such as oidc:", check.Clip(prefix))
	}
	if o.CertificateAuthority != "" && !isCertificates(o.CertificateAuthority) {
		k.Errorf(p.Then("certificateAuthority"), "this is not certificates as PEM; write |, and below it the text from "+
			"-----BEGIN CERTIFICATE----- on")
	}
}

// isCertificates tells whether a text is certificates as PEM, and nothing else.
func isCertificates(text string) bool {
	if len(text) > maxIssuerAuthority {
		return false
	}
	rest, found := []byte(text), 0
	for len(strings.TrimSpace(string(rest))) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return false
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return false
		}
		found++
	}
	return found > 0
}
