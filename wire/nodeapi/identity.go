package nodeapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// maxEnded is for how long after its end the certificate of a node is still known as one that was (Caller.Ended): a
// node that was off asks with it for another one.
const maxEnded = 366 * 24 * time.Hour

// Identity is what one side shows and whom it trusts; all is PEM.
type Identity struct {
	// Certificate, with the chain that leads to it, and Key are its own; Authorities are those that the other side's
	// certificate may be from.
	Certificate, Key, Authorities []byte
}

// parse returns the pair and whom it trusts.
func (i Identity) parse() (tls.Certificate, *x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(i.Authorities) {
		return tls.Certificate{}, nil, errors.New("the file of the authority of agents has no certificate")
	}
	pair, err := tls.X509KeyPair(i.Certificate, i.Key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("own certificate of the authority agent: %w", err)
	}
	return pair, pool, nil
}

// Clock is the time by which a node judges certificates.
type Clock struct {
	Now time.Time
	// Behind says that it is known to be too early: it could not be right when the machine started, and nothing has set
	// it since. A person whose certificate begins later is let in then, as at its beginning: that the cluster has signed
	// it shows that it has begun. Otherwise nobody could give the node a time server.
	Behind bool
}

// ServerConfig is how a node answers: to nobody without a certificate that holds, or, of a node, held. greet is told
// who the caller is before the first request is read, and refuses him by an error.
func (i Identity) ServerConfig(at Clock, greet func(Caller) error) (*tls.Config, error) {
	pair, pool, err := i.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		// Whose certificates are asked for. They are verified below, since TLS's own way knows no certificate that has ended.
		ClientCAs: pool, ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(s tls.ConnectionState) error {
			c, err := verify(s.PeerCertificates, pool, at)
			if err != nil {
				return err
			}
			return greet(c)
		},
		// A session that goes on would be one whose certificate is not looked at again.
		SessionTicketsDisabled: true,
		// Only HTTP/1.1: one request of a connection at a time, so that what is bounded by connections is bounded.
		NextProtos: []string{"http/1.1"},
	}, nil
}

// PageConfig is how a node answers browsers: a certificate is asked for, and not looked at. Verify does that, so that who
// shows none, or one that does not hold, is told so by a page. After a handshake that failed, a browser would show an
// error of its own, which says nothing of what to do.
func (i Identity) PageConfig() (*tls.Config, error) {
	pair, pool, err := i.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		// A browser offers those of its certificates that are of one of these.
		ClientCAs: pool, ClientAuth: tls.RequestClientCert,
		SessionTicketsDisabled: true, NextProtos: []string{"http/1.1"}, // as in ServerConfig
	}, nil
}

// Verify tells who has shown a chain of certificates, the own one first, as ServerConfig does.
func (i Identity) Verify(chain []*x509.Certificate, at Clock) (Caller, error) {
	_, pool, err := i.parse()
	if err != nil {
		return Caller{}, err
	}
	return verify(chain, pool, at)
}

// verify tells who shows a chain of certificates.
func verify(chain []*x509.Certificate, authorities *x509.CertPool, at Clock) (Caller, error) {
	if len(chain) == 0 {
		return Caller{}, errors.New("the client showed no certificate")
	}
	c, now := callerOf(chain[0]), at.Now
	if at.Behind && now.Before(c.Begins) && c.isPerson() {
		now = c.Begins
	}
	o := x509.VerifyOptions{Roots: authorities, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, link := range chain[1:] {
		o.Intermediates.AddCert(link)
	}
	leaf, nodes, err := limited(chain[0])
	if err != nil {
		return Caller{}, err
	}
	c.Nodes = nodes
	_, err = leaf.Verify(o)
	if err != nil && now.After(c.Ends) && now.Sub(c.Ends) <= maxEnded && c.Is(Node) {
		// As it was on its last day.
		o.CurrentTime, c.Ended = c.Ends, true
		_, err = leaf.Verify(o)
	}
	if err != nil {
		return Caller{}, err
	}
	return c, nil
}

// clientConfig is how a node is asked: it must be the one with that name.
func (i Identity) clientConfig(node string) (*tls.Config, error) {
	pair, pool, err := i.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: node, SessionTicketsDisabled: true,
		// The authority issues the certificates of operators, too, and a node's may hold names of others.
		VerifyConnection: func(s tls.ConnectionState) error {
			if c := callerOf(s.PeerCertificates[0]); c.Name != node || !c.Is(Node) {
				return fmt.Errorf("the certificate belongs to %q", c.Name)
			}
			return nil
		},
	}, nil
}
