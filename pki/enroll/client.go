package enroll

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// askBound is how long one question may take.
const askBound = 30 * time.Second

// Answer is what a server says.
type Answer struct {
	// Sealed is the bundle, encrypted; nil while there is none.
	Sealed []byte
	// Pending says why not.
	Pending Pending
}

// Client asks a server.
type Client struct {
	// Base is the folder of the server, with a slash at its end.
	Base string
	// HTTP is http.DefaultTransport's when nil.
	HTTP http.RoundTripper
}

// URL is where it asks.
func (c Client) URL() string { return strings.TrimSuffix(c.Base, "/") + "/" + Path }

// Ask sends the claim once. The error says what was asked of whom and what came.
func (c Client) Ask(ctx context.Context, claim Claim) (Answer, error) {
	fail := func(err error) (Answer, error) { return Answer{}, fmt.Errorf("POST %s: %w", c.URL(), err) }
	body, err := json.Marshal(claim)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: c.HTTP, CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirect is not followed") }}
	answer, err := client.Do(r)
	if err != nil {
		return Answer{}, err // It names method and URL.
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxSealed+1))
	if err != nil {
		return fail(err)
	}
	switch answer.StatusCode {
	case http.StatusOK:
		if len(data) == 0 || len(data) > maxSealed {
			return fail(fmt.Errorf("a bundle of %d bytes", len(data)))
		}
		return Answer{Sealed: data}, nil
	case http.StatusAccepted, http.StatusForbidden:
		p, err := ParsePending(data)
		if err != nil {
			return fail(err)
		}
		return Answer{Pending: p}, nil
	}
	return fail(fmt.Errorf("the server answers %d: %s", answer.StatusCode, firstLine(data)))
}

// firstLine is what of a server's words can be shown.
func firstLine(data []byte) string {
	line, _, _ := strings.Cut(string(data[:min(len(data), maxText)]), "\n")
	if !printable(line) {
		return "(no text)"
	}
	return line
}
