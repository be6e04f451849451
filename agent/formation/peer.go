package formation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// path is what is asked for, followed by the name of the service.
const path = "/v1/formation/"

// nodes is the organization in the certificates of nodes' agents (table of package pki).
const nodes = "spore:nodes"

// askTime bounds one question, on a machine of usual speed.
const askTime = 5 * time.Second

// Identity is what a node shows and whom it trusts; all is PEM.
type Identity struct {
	// Certificate and Key are those of the node's agent, Authorities whom the others' certificates may be from.
	Certificate, Key, Authorities []byte
}

// config is the part that asking and answering have in common. Both sides show the certificate of an agent, whose common
// name is the node's.
func (i Identity) config() (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(i.Authorities) {
		return nil, errors.New("the file of the authority of agents has no certificate")
	}
	pair, err := tls.X509KeyPair(i.Certificate, i.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate of this node's agent: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// nodeOf is whose certificate a connection showed; empty when it is not that of a node.
func nodeOf(c *tls.ConnectionState) string {
	if c == nil || len(c.PeerCertificates) == 0 || !slices.Contains(c.PeerCertificates[0].Subject.Organization, nodes) {
		return ""
	}
	return c.PeerCertificates[0].Subject.CommonName
}

// Client asks other members, by HTTPS with both certificates.
type Client struct {
	// Cluster is the id of the cluster.
	Cluster string
	// Identity reads what the node shows. It is read for every question: a bundle may come while a member waits.
	Identity func() (Identity, error)
	// Addresses lists where a member is asked, in this order; hosts or addresses.
	Addresses func(member string) ([]string, error)
	// Port is Port but in tests. Slow is by how much the machines are slower than usual.
	Port, Slow int
}

// Ask implements Asker.
func (c *Client) Ask(ctx context.Context, service, member string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime*time.Duration(max(c.Slow, 1)))
	defer cancel()
	id, err := c.Identity()
	if err != nil {
		return Answer{}, err
	}
	config, err := id.config()
	if err != nil {
		return Answer{}, err
	}
	config.ServerName = member
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if got := nodeOf(&s); got != member {
			return fmt.Errorf("the certificate is that of %q", s.PeerCertificates[0].Subject.CommonName)
		}
		return nil
	}
	transport := &http.Transport{
		TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, member) },
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(member, strconv.Itoa(c.Port)), Path: path + service}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Answer{}, fmt.Errorf("internal error: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, reason(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return Answer{}, fmt.Errorf("it answers %d: %.300q", res.StatusCode, strings.TrimSpace(string(text)))
	}
	return readAnswer(res.Body, c.Cluster, member, service)
}

// dial tries one address after the other.
func (c *Client) dial(ctx context.Context, member string) (net.Conn, error) {
	addresses, err := c.Addresses(member)
	if err != nil {
		return nil, err
	}
	err = errors.New("it has no address")
	for i, a := range addresses {
		// An address that swallows packets must leave time for the next.
		each, cancel := context.WithCancel(ctx)
		if deadline, ok := ctx.Deadline(); ok {
			cancel()
			each, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addresses)-i+1))
		}
		var conn net.Conn
		conn, err = new(net.Dialer).DialContext(each, "tcp", net.JoinHostPort(a, strconv.Itoa(c.Port)))
		cancel()
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// reason takes off what an error says of the request, which is the same in every line.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	var op *net.OpError
	if errors.As(err, &op) { // It has a port of ours, which is another one each time.
		err = op.Err
	}
	return fmt.Errorf("no answer: %w", err)
}

// Server answers for this node.
type Server struct {
	// Cluster is the id of the cluster, Node this node's name.
	Cluster, Node string
	// Members lists by service who may ask.
	Members map[string][]string
	// Dir holds the files of the members of this machine.
	Dir string
	// Identity is what the node shows and whom it trusts.
	Identity Identity
	// Say is told of what could not be read.
	Say func(string)
}

// Serve answers on a listener until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	config, err := s.Identity.config()
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: s, TLSConfig: config, ReadHeaderTimeout: 30 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		// Handshakes that fail are told to those who asked; here they would fill the journal.
		ErrorLog: discard(),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err = server.ServeTLS(&limited{Listener: l, room: make(chan struct{}, maxConnections)}, "", "")
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("answer other members: %w", err)
}

// ServeHTTP answers GET /v1/formation/SERVICE, to members of this service alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asks := nodeOf(r.TLS)
	service, ok := strings.CutPrefix(r.URL.Path, path)
	members, known := s.Members[service]
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		return
	case !ok || !known:
		http.Error(w, s.Node+" is no member of such a service; give all nodes the same configuration", http.StatusNotFound)
		return
	case asks == "" || !slices.Contains(members, asks):
		http.Error(w, "the configuration of "+s.Node+" has no such member of "+service+"; give it the present one first", http.StatusForbidden)
		return
	}
	file, err := Read(s.Dir, service)
	if err != nil {
		s.Say(err.Error())
		http.Error(w, s.Node+" cannot read what it knows of itself; see its journal", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encodeAnswer(answer(s.Cluster, s.Node, service, file)))
}
