package rules

import (
	"maps"
	"slices"

	"spore/cluster/check"
	"spore/cluster/role"
)

func (c *checker) secrets() {
	c.list(c.in("secrets"), "secrets", len(c.d.Secrets))
	for _, name := range c.d.SecretNames() {
		p, s := c.in("secrets", name), c.d.Secrets[name]
		if !entryForm.MatchString(name) {
			c.Errorf(p, "%q is not the name of a secret; write 1 to 50 lower-case letters, digits and -, such as "+
				"%s-password", check.Clip(name), c.d.Name)
			continue
		}
		c.secret(p, name, s)
		entries := []string{name}
		if s.Certificate != nil {
			entries = []string{name + role.CertificateEnding, name + role.KeyEnding}
		}
		for _, entry := range entries {
			if whose := c.rest.Secrets[entry]; whose != "" {
				c.Errorf(p, "the secret %q belongs to %s; write another name, such as %s-%s", entry, whose, c.d.Name,
					name)
			} else if other, is := c.d.Secrets[entry]; is && entry != name && other.Certificate == nil {
				c.Errorf(p, "the certificate %s makes the entry %q of the bundle, which is a secret of the role "+
					"too; write another name", name, entry)
			}
		}
	}
	for _, a := range c.d.Authorities() {
		if whose := c.rest.Authorities[a]; whose != "" {
			c.Errorf(c.in("secrets", c.signs(a)), "the authority %q belongs to %s; write one of the role's own, "+
				"such as authority: %s-ca", a, whose, c.d.Name)
		}
	}
}

// signs is the first certificate that an authority signs.
func (c *checker) signs(authority string) string {
	for _, name := range c.d.SecretNames() {
		if c.d.AuthorityOf(name) == authority {
			return name
		}
	}
	return ""
}

func (c *checker) secret(p check.Place, name string, s role.Secret) {
	switch {
	case s.Certificate != nil && (s.Given || s.Length != 0 || s.Alphabet != ""):
		c.Errorf(p, "the secret %s is a certificate, which the role's authority makes; remove length, alphabet "+
			"and given", name)
		return
	case s.Given && (s.Length != 0 || s.Alphabet != ""):
		c.Errorf(p, "the secret %s is one that the operator brings; remove length and alphabet", name)
		return
	case s.Certificate != nil:
		c.certificate(p.Then("certificate"), *s.Certificate)
		return
	}
	if s.Alphabet != "" && !c.OneOf(p.Then("alphabet"), "the alphabet", s.Alphabet,
		slices.Sorted(maps.Keys(role.Alphabets))) {
		return
	}
	length, letters := s.Letters()
	if c.file.Has(append(p.Path, "length")...) && !c.Between(p.Then("length"), "the length", s.Length, 1, maxLength) {
		return
	}
	if least := fewest(len(letters)); length < least {
		c.Errorf(p, "a secret of %d characters can be guessed; write length: %d or more", length, least)
	}
}

// fewest is how many letters of an alphabet have minBits bits.
func fewest(letters int) int {
	n, bits := 0, 0.0
	for ; bits < minBits; n++ {
		bits += log2(letters)
	}
	return n
}

func (c *checker) certificate(p check.Place, s role.Certificate) {
	if s.Authority != "" && !nameForm.MatchString(s.Authority) {
		c.Errorf(p.Then("authority"), "%q is not the name of an authority; write 2 to 32 lower-case letters, "+
			"digits and -, such as %s", check.Clip(s.Authority), c.d.Name)
	}
	c.list(p.Then("names"), "names", len(s.Names))
	for i, name := range s.Names {
		for _, word := range wordForm.FindAllString(name, -1) {
			if !slices.Contains(certificateWords, word) {
				c.OneOf(p.Then("names", i), "the word", word, certificateWords)
				return
			}
		}
		plain := wordForm.ReplaceAllString(name, "x")
		if !check.IsDomain(plain) && !isAddress(plain) {
			c.Errorf(p.Then("names", i), "%q is neither a DNS name nor an address; write one such as "+
				"valkey.{domain} or 10.77.0.5", check.Clip(name))
		}
	}
	for i, use := range s.Usage {
		c.OneOf(p.Then("usage", i), "the usage", use, usages)
	}
	if s.Signal != "" && !c.OneOf(p.Then("signal"), "the signal", s.Signal, signals) {
		return
	}
	if of := c.d.Signal(); s.Signal != of {
		c.Errorf(p, "another certificate of the role has %s, and this one has %s: all units read all of them; write "+
			"the same signal for each", signalWords(of), signalWords(s.Signal))
	}
}

func signalWords(signal string) string {
	if signal == "" {
		return "no signal"
	}
	return "signal: " + signal
}

// Closed lists of values.
var (
	choices       = role.Choices()
	architectures = choices["Definition.architectures"]
	protocols     = choices["Port.protocol"]
	scopes        = choices["Port.at"]
	usages        = choices["Certificate.usage"]
	signals       = choices["Certificate.signal"]
)

// certificateWords are filled in for each node (package pki).
var certificateWords = []string{"{node}", "{hostname}", "{fqdn}", "{domain}", "{ips}"}
