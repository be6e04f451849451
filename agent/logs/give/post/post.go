// Package post sends what receivers with an HTTP interface are given: one compressed body, of which the answer is read
// with bounds. It follows no redirect, and asks no proxy.
package post

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spore/agent/logs/give/parcel"
	"spore/agent/plant"
)

const (
	// patience is how long a request may take with its answer.
	patience = time.Minute
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 4 << 20
	// leastSecret is how long a secret is, in bytes, that is looked for in answers: a shorter one stands in any text.
	leastSecret = 4
)

// Server is an HTTP server and who one is there. Secrets are files that are read at each request.
type Server struct {
	URL string
	// CA is whose certificates it has, as PEM; those of the system when empty.
	CA string
	// User has the password of PasswordFile; when it is empty, requests go without a user.
	User, PasswordFile string
	// TokenFile has what stands behind Scheme, such as Bearer, in the header Authorization.
	Scheme, TokenFile string
}

// Client asks one server.
type Client struct {
	server Server
	url    string
	http   *http.Client
}

// New makes a client for a place of a server: elements of a path, and a query.
func New(s Server, query url.Values, path ...string) (*Client, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the url is malformed")
	}
	for i, p := range path {
		path[i] = url.PathEscape(p)
	}
	u = u.JoinPath(path...)
	u.RawQuery = query.Encode()
	c, err := plant.HTTP(s.CA, patience)
	if err != nil {
		return nil, err
	}
	return &Client{server: s, url: u.String(), http: c}, nil
}

// Answer is what a server answers.
type Answer struct {
	Code int
	Body []byte
	// After is what it asks for in Retry-After; 0 where it does not.
	After time.Duration
}

// Send sends a body, of a type, and more headers.
func (c *Client) Send(ctx context.Context, kind string, headers map[string]string, body []byte) (Answer, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(body); err != nil {
		return Answer{}, fmt.Errorf("compress what is sent: %w", err)
	}
	if err := z.Close(); err != nil {
		return Answer{}, fmt.Errorf("compress what is sent: %w", err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, &packed)
	if err != nil {
		return Answer{}, errors.New("the url is malformed")
	}
	q.Header.Set("Content-Type", kind)
	q.Header.Set("Content-Encoding", "gzip")
	q.Header.Set("User-Agent", "spore-logs-store")
	for name, value := range headers {
		q.Header.Set(name, value)
	}
	secret, err := c.server.authorize(q)
	if err != nil {
		return Answer{}, err
	}
	got, err := c.http.Do(q)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the HTTP server: %w", unwrapped(err))
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer+1))
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer of the HTTP server: %w", err)
	}
	if len(text) > maxAnswer {
		return Answer{}, fmt.Errorf("the answer of the HTTP server has more than %d bytes", maxAnswer)
	}
	// What a server says is in logs; some say again what they were sent.
	for _, shown := range []string{strings.TrimPrefix(q.Header.Get("Authorization"), "Basic "), secret} {
		if got.StatusCode/100 != 2 && len(shown) >= leastSecret {
			text = bytes.ReplaceAll(text, []byte(shown), []byte("(secret)"))
		}
	}
	return Answer{Code: got.StatusCode, Body: text, After: after(got.Header.Get("Retry-After"))}, nil
}

// authorize says who asks, and returns the secret of it.
func (s Server) authorize(q *http.Request) (secret string, err error) {
	if s.PasswordFile != "" {
		if secret, err = plant.Secret(s.PasswordFile); err != nil {
			return "", err
		}
		q.SetBasicAuth(s.User, secret)
	}
	if s.TokenFile != "" {
		if secret, err = plant.Secret(s.TokenFile); err != nil {
			return "", err
		}
		q.Header.Set("Authorization", s.Scheme+" "+secret)
	}
	return secret, nil
}

// unwrapped is an error of net/http without the URL.
func unwrapped(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// after reads Retry-After in seconds (RFC 9110, section 10.2.3). A date is not read: clocks differ.
func after(text string) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// Err is the error of an answer other than a success.
func (a Answer) Err() error {
	err := fmt.Errorf("the HTTP server answers %d: %s", a.Code, a.Said())
	if a.After > 0 {
		return &parcel.Later{After: a.After, Err: err}
	}
	return err
}

// Said is the beginning of the answer's text.
func (a Answer) Said() string {
	return parcel.Cut(strings.ToValidUTF8(strings.TrimSpace(string(a.Body[:min(len(a.Body), 400)])), "?"), 300)
}
