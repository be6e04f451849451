package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxHeader bounds the header of an answer, maxRefusal what is shown of why a node refuses, in bytes.
const (
	maxHeader  = 16 << 10
	maxRefusal = 300
)

// Client asks nodes.
type Client struct {
	// Identity reads what the client shows. It is read for every question: a certificate may be renewed while somebody
	// waits.
	Identity func() (Identity, error)
	// Addresses lists where a node is asked, in this order: hosts or addresses, with a port where it is not Port.
	Addresses func(node string) ([]string, error)
	// Dial connects to an address over TCP; that of net.Dialer when it is nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Request is one question.
type Request struct {
	// Method is GET when it is empty.
	Method string
	Path   string
	Query  url.Values
	Body   io.Reader
	// Header is added to what is sent.
	Header http.Header
	// Begun is told the header of the answer when that begins; it may be nil.
	Begun func(http.Header)
}

// Refusal is the answer of a node that refuses.
type Refusal struct {
	// Status is that of HTTP, and Text what the node says.
	Status int
	Text   string
}

func (r Refusal) Error() string { return fmt.Sprintf("it answers %d: %q", r.Status, r.Text) }

// Ask asks a node, and returns its answer to read and close; an answer of another status than 200 to 299 is a Refusal.
func (c *Client) Ask(ctx context.Context, node string, q Request) (io.ReadCloser, error) {
	v, err := c.visit(node)
	if err != nil {
		return nil, err
	}
	v.transport.DisableKeepAlives = true
	return v.Ask(ctx, q)
}

// Visit asks one node several questions on one connection.
type Visit struct {
	node      string
	transport *http.Transport
	client    http.Client
}

// visitIdle is how long a visit keeps a connection that nothing is asked on: a node has few seats.
const visitIdle = 2 * time.Second

// Visit begins a visit. What the client shows is that of now.
func (c *Client) Visit(node string) (*Visit, error) { return c.Stay(node, visitIdle) }

// Stay begins a visit that keeps its connection for so long while nothing is asked on it. It takes one of the node's
// seats all the time, and spares both sides a handshake for each question.
func (c *Client) Stay(node string, idle time.Duration) (*Visit, error) {
	v, err := c.visit(node)
	if err == nil {
		v.transport.MaxConnsPerHost, v.transport.IdleConnTimeout = 1, idle
	}
	return v, err
}

func (c *Client) visit(node string) (*Visit, error) {
	id, err := c.Identity()
	if err != nil {
		return nil, err
	}
	config, err := id.clientConfig(node)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: config, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, node) },
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Visit{node, transport, http.Client{Transport: transport, CheckRedirect: noRedirect}}, nil
}

// End closes the connection.
func (v *Visit) End() { v.transport.CloseIdleConnections() }

// Ask is Client.Ask.
func (v *Visit) Ask(ctx context.Context, q Request) (io.ReadCloser, error) {
	host := net.JoinHostPort(v.node, strconv.Itoa(Port))
	u := url.URL{Scheme: "https", Host: host, Path: q.Path, RawQuery: q.Query.Encode()}
	req, err := http.NewRequestWithContext(ctx, q.Method, u.String(), q.Body)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	for name, values := range q.Header {
		req.Header[name] = values
	}
	res, err := v.client.Do(req)
	if err != nil {
		return nil, reason(err)
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
		return nil, Refusal{res.StatusCode, strings.TrimSpace(string(text))}
	}
	if q.Begun != nil {
		q.Begun(res.Header)
	}
	return res.Body, nil
}

// Read is Client.Read.
func (v *Visit) Read(ctx context.Context, q Request, most int64) ([]byte, error) {
	body, err := v.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readAll(body, most)
}

// Read asks a node and returns its whole answer, which has at most so many bytes.
func (c *Client) Read(ctx context.Context, node string, q Request, most int64) ([]byte, error) {
	body, err := c.Ask(ctx, node, q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readAll(body, most)
}

func readAll(body io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, fmt.Errorf("read its answer: %w", reason(err))
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("its answer has more than %d bytes", most)
	}
	return data, nil
}

// dial tries one address after the other.
func (c *Client) dial(ctx context.Context, node string) (net.Conn, error) {
	addresses, err := c.Addresses(node)
	if err != nil {
		return nil, err
	}
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
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
		conn, err = dial(each, "tcp", withPort(a))
		cancel()
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// withPort is an address with Port, unless it has one.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), strconv.Itoa(Port))
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
