package renewal

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"

	"spore/pki"
)

// Bounds of what is asked and answered, in bytes, and in certificates of one request.
const (
	MaxRequest = 256 << 10
	MaxAnswer  = 1 << 20
	maxWanted  = 64
	maxChain   = 8
)

// purpose keeps the signature of a request from being one of anything else.
const purpose = "spore renew 1\x00"

// Request is what a node asks for: certificates of its own rows of the table, each for a key that never leaves the node.
type Request struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Wanted holds certificate requests (PKCS #10, PEM) by the name of the table's row.
	Wanted map[string]string `json:"wanted"`
}

// envelope is a request as it travels: signed by the key of the node's agent, with that one's certificate. So whoever signs needs
// to believe nobody in between.
type envelope struct {
	Request json.RawMessage `json:"request"`
	// Chain is the agent's certificate and its authority's, PEM.
	Chain string `json:"chain"`
	// Signature is ECDSA over the SHA-256 of the purpose and the request, ASN.1.
	Signature []byte `json:"signature"`
}

// Answer is what a master answers.
type Answer struct {
	// Made holds certificates with their authority's behind them, PEM, by the name of the row; Refused why there is none.
	Made    map[string]string `json:"made,omitempty"`
	Refused map[string]string `json:"refused,omitempty"`
}

func digest(request []byte) []byte {
	sum := sha256.Sum256(append([]byte(purpose), request...))
	return sum[:]
}

// Seal signs a request with the key of the node's agent.
func Seal(r Request, agent pki.Certificate) ([]byte, error) {
	key, err := pki.ParseKey(agent.Key)
	if err != nil {
		return nil, fmt.Errorf("the key of this node's agent: %w", err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	signature, err := key.Sign(rand.Reader, digest(body), crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign the request for certificates: %w", err)
	}
	return json.Marshal(envelope{body, agent.Certificate, signature})
}

// open reads a request and checks that the key of the first certificate of its chain signed it. Whose that is, is not checked.
func open(data []byte) (Request, []*x509.Certificate, error) {
	var e envelope
	if len(data) > MaxRequest {
		return Request{}, nil, fmt.Errorf("it has more than %d bytes", MaxRequest)
	}
	if err := strict(data, &e); err != nil {
		return Request{}, nil, err
	}
	chain, err := certificates(e.Chain)
	if err != nil {
		return Request{}, nil, err
	}
	key, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(key, digest(e.Request), e.Signature) {
		return Request{}, nil, errors.New("it is not signed by the key of its certificate")
	}
	var r Request
	if err := strict(e.Request, &r); err != nil {
		return Request{}, nil, err
	}
	if r.Cluster == "" || r.Node == "" || len(r.Wanted) == 0 || len(r.Wanted) > maxWanted {
		return Request{}, nil, errors.New("it names no cluster or node, or asks for none or too many")
	}
	return r, chain, nil
}

// ReadAnswer reads the answer to a request.
func ReadAnswer(data []byte) (Answer, error) {
	var a Answer
	if len(data) > MaxAnswer {
		return a, fmt.Errorf("its answer has more than %d bytes", MaxAnswer)
	}
	if err := strict(data, &a); err != nil {
		return Answer{}, fmt.Errorf("its answer: %w", err)
	}
	return a, nil
}

// strict reads one JSON value of known fields, and nothing behind it.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New("it is not JSON as it must be")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

func certificates(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" { // A key may stand beside it.
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || len(out) == maxChain {
			return nil, errors.New("its certificates are not of their form")
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("it has no certificate")
	}
	return out, nil
}

// nodes is the organization in the certificates of nodes' agents (table of package pki).
const nodes = "spore:nodes"

// isAgent tells whether a certificate names a node's agent.
func isAgent(c *x509.Certificate, node string) bool {
	return c.Subject.CommonName == node && slices.Equal(c.Subject.Organization, []string{nodes})
}
