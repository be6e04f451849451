package send

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"spore/services/logs/sending"
	"spore/wire/journalexport"
	"spore/wire/nodeapi"
)

// Times of a request. headerBound is how long a store may think about a batch: it writes it to its disk.
const (
	dialBound    = 15 * time.Second
	headerBound  = time.Minute
	requestBound = 5 * time.Minute
	// idleBound is shorter than that of the API, so that no batch meets a connection that is just closed.
	idleBound = 5 * time.Second
	// mostLater bounds how long a store may have us wait.
	mostLater = time.Minute
)

// maxText bounds what is read of an answer, in bytes.
const maxText = 1 << 10

// answer is what a store says of a batch.
type answer int

const (
	taken    answer = iota // it is on the store's disk
	later                  // not now, or nobody knows
	refused                // it is malformed
	tooLarge               // it is too large
)

func (a answer) String() string { return [...]string{"taken", "later", "refused", "refused"}[a] }

// upstream sends batches to the API of a store's node.
type upstream struct {
	url    string
	client *http.Client
	pack   *zstd.Encoder
	now    func() time.Time
}

// newUpstream makes the client of a store. The certificate is read again for each connection: it is renewed.
func newUpstream(s sending.Store, c sending.Config, authority []byte, now func() time.Time) (*upstream, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", c.CA)
	}
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(256<<10))
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	t := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialBound}).DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: s.ServerName,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				pair, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
				return &pair, err
			},
		},
		TLSHandshakeTimeout: dialBound, ResponseHeaderTimeout: headerBound, IdleConnTimeout: idleBound,
		MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: 16 << 10, DisableCompression: true,
	}
	return &upstream{
		url: "https://" + s.Address + nodeapi.EntriesPath, pack: pack, now: now,
		client: &http.Client{
			Transport: t, Timeout: requestBound,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// packed is a batch as it is sent.
func (u *upstream) packed(data []byte) []byte { return u.pack.EncodeAll(data, nil) }

// send sends a packed batch once. The error says why it was not taken; wait is how long the store wants us to.
func (u *upstream) send(ctx context.Context, packed []byte) (a answer, wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(packed))
	if err != nil {
		return later, 0, fmt.Errorf("internal error: %w", err)
	}
	r.Header.Set("Content-Type", journalexport.ContentType)
	r.Header.Set("Content-Encoding", "zstd")
	// The store tells by the date whose clock differs from its own. It is that of the moment at which the request is
	// written: to connect may take many seconds. net/http calls this in the goroutine of Do.
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		r.Header.Set("Date", u.now().UTC().Format(http.TimeFormat))
	}}))
	// A store leaves out what it has. So net/http may send a batch again by itself where a connection was closed before
	// it had an answer; nothing of this header is sent.
	r.Header["Idempotency-Key"] = nil
	got, err := u.client.Do(r)
	if err != nil {
		return later, 0, err
	}
	// The rest is read, as far as it is short, so that the connection can be used again.
	text, err := io.ReadAll(io.LimitReader(got.Body, maxText))
	got.Body.Close()
	said := printable(string(text))
	switch got.StatusCode {
	case http.StatusNoContent:
		return taken, 0, nil // The store has it, whatever became of the connection behind that.
	case http.StatusBadRequest:
		return refused, 0, errors.New("the store calls it malformed: " + said)
	case http.StatusRequestEntityTooLarge:
		return tooLarge, 0, errors.New("the store calls it too large: " + said)
	}
	if err != nil {
		return later, 0, fmt.Errorf("read the answer of the store: %w", err)
	}
	if got.StatusCode != http.StatusServiceUnavailable {
		// The next connection shows the certificate that the node has by now.
		u.client.CloseIdleConnections()
	}
	return later, waitOf(got.Header.Get("Retry-After")), fmt.Errorf("the store answers %d: %s", got.StatusCode, said)
}

// waitOf reads Retry-After as a count of seconds (RFC 9110, section 10.2.3).
func waitOf(text string) time.Duration {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, mostLater)
}

// printable is a text on one line that no terminal obeys.
func printable(text string) string {
	return strings.Trim(strconv.QuoteToGraphic(strings.TrimSpace(text)), `"`)
}
