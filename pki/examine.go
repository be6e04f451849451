package pki

import "time"

// Worth is what a certificate is good for, the best first.
type Worth int

// Worths.
const (
	// Good is as the table wants it.
	Good Worth = iota
	// Due works, and two thirds of its life are over.
	Due
	// Changed works under names or addresses that are no longer those of the table.
	Changed
	// Useless does not work: it is not there, has ended, or nobody trusts it.
	Useless
)

// Examination is what Examine found.
type Examination struct {
	Worth Worth
	// Why says the reason when it is not Good.
	Why string
	// Ends is when the certificate does; zero when there is none.
	Ends time.Time
}

// Examine tells what a certificate, with its chain behind it, and its key are worth for a leaf at a time. trusted holds the
// certificates by which its authority is trusted, as PEM.
func (l Leaf) Examine(have Certificate, trusted string, now time.Time) Examination {
	useless := func(why string) Examination { return Examination{Worth: Useless, Why: why} }
	if have.Certificate == "" && have.Key == "" {
		return useless("it is not there")
	}
	chain, err := splitCertificates(have.Certificate)
	if err != nil {
		return useless("it cannot be read")
	}
	c, err := parseCertificate(chain[0])
	if err != nil {
		return useless("it cannot be read")
	}
	key, err := parseKey(have.Key)
	if err != nil || !samePublic(key.Public(), c.PublicKey) {
		return useless("its key is not its own")
	}
	authorities, err := splitCertificates(trusted)
	if err != nil {
		return useless("the authority " + l.Row.Authority + " cannot be read")
	}
	known := false
	for _, text := range authorities {
		by, err := parseCertificate(text)
		known = known || err == nil && c.CheckSignatureFrom(by) == nil
	}
	e := Examination{Ends: c.NotAfter}
	switch why := differs(c, l); {
	case !known:
		e.Worth, e.Why = Useless, "the authority "+l.Row.Authority+" is another one"
	case !now.Before(c.NotAfter):
		e.Worth, e.Why = Useless, "it ended on "+c.NotAfter.UTC().Format(time.DateOnly)
	case now.Before(c.NotBefore):
		e.Worth, e.Why = Useless, "it begins only on "+c.NotBefore.UTC().Format(time.DateOnly)
	case why != "":
		e.Worth, e.Why = Changed, why
	case !now.Before(leafDue(c)):
		e.Worth, e.Why = Due, "two thirds of its life were over"
	}
	return e
}
