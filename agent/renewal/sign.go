package renewal

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"spore/cluster/facts"
	"spore/pki"
	"spore/services/service"
)

// Grace is how long after its end a node's certificate still proves that it is the node, to ask for new ones and for nothing
// else: a cluster that was off comes back by itself. A node that was off for longer is given a bundle by the operator.
const Grace = pki.LeafLife

// Signer makes certificates for other nodes, on a master.
type Signer struct {
	Cluster *facts.Cluster
	// Node returns a node of the configuration.
	Node func(name string) (*facts.Node, error)
	// Trusted holds the certificates of authorities by name (PEM).
	Trusted map[string]string
	// Key returns the key of an authority; an error where this master has none.
	Key    func(authority string) (pki.Hidden, error)
	Now    time.Time
	Random io.Reader
}

// Sign answers a sealed request. An error says why nothing of it is answered, to whoever asked.
//
// Nothing that was asked for gets into a certificate but its key: names, addresses and uses are those that the table and
// this master's configuration have for the node. The same request again gives another certificate of the same key, which
// whoever has seen the request cannot use.
func (s Signer) Sign(data []byte) ([]byte, error) {
	r, chain, err := open(data)
	if err != nil {
		return nil, fmt.Errorf("the request: %w", err)
	}
	n, err := s.asker(r, chain)
	if err != nil {
		return nil, err
	}
	share, err := pki.ShareOf(s.Cluster, n)
	if err != nil {
		return nil, err
	}
	a := Answer{Made: map[string]string{}, Refused: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(r.Wanted)) {
		text, err := s.one(share, name, r.Wanted[name])
		if err != nil {
			a.Refused[name] = err.Error()
		} else {
			a.Made[name] = text
		}
	}
	return json.Marshal(a)
}

// asker is the node that has signed a request.
func (s Signer) asker(r Request, chain []*x509.Certificate) (*facts.Node, error) {
	if r.Cluster != s.Cluster.ID {
		return nil, errors.New("the request is for another cluster")
	}
	if !isAgent(chain[0], r.Node) {
		return nil, fmt.Errorf("the certificate is not that of the agent of %.64q", r.Node)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.Trusted["agent"])) {
		return nil, errors.New("this master has no authority of agents")
	}
	at := s.Now
	if ends := chain[0].NotAfter; at.After(ends) {
		if at.Sub(ends) > Grace {
			return nil, fmt.Errorf("the certificate of %s ended on %s, and it proves something for %d days more; make a bundle (spore pki bundle --node %s) and bring it to the node",
				r.Node, ends.UTC().Format(time.DateOnly), Grace/(24*time.Hour), r.Node)
		}
		at = ends
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: pool, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return nil, fmt.Errorf("the certificate of %s: %w", r.Node, err)
	}
	n, err := s.Node(r.Node)
	if err != nil {
		return nil, fmt.Errorf("the configuration of this master has no node %s", r.Node)
	}
	return n, nil
}

func (s Signer) one(share pki.Share, name, request string) (string, error) {
	i := slices.IndexFunc(share.Leaves, func(l pki.Leaf) bool { return l.Row.Name == name && l.Row.Made == service.Operator })
	if i < 0 {
		return "", errors.New("the node has no such certificate")
	}
	l := share.Leaves[i]
	key, err := s.Key(l.Row.Authority)
	if err != nil {
		return "", err
	}
	by, err := pki.NewIssuer(l.Row.Authority, s.Trusted[l.Row.Authority], key, s.Now)
	if err != nil {
		return "", err
	}
	return by.Certify(l, request, pki.Options{Now: s.Now, Random: s.Random})
}
