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
)

// ShellPath is asked for an emergency shell (package wire/shell): a POST with a grant in its header, whose connection
// becomes one of frames.
const ShellPath = "/v1/shell"

// Upgrade has a node turn a connection into one of another protocol (RFC 9110, section 7.8), and returns it. An answer
// other than 101 is a Refusal. ctx is for the whole time.
func (c *Client) Upgrade(ctx context.Context, node string, q Request, protocol string) (io.ReadWriteCloser, error) {
	v, err := c.visit(node)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(node, strconv.Itoa(Port)), Path: q.Path, RawQuery: q.Query.Encode()}
	req, err := http.NewRequestWithContext(ctx, q.Method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	for name, values := range q.Header {
		req.Header[name] = values
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	res, err := v.client.Do(req)
	if err != nil {
		return nil, reason(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
		return nil, Refusal{res.StatusCode, strings.TrimSpace(string(text))}
	}
	conn, ok := res.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(res.Header.Get("Upgrade"), protocol) {
		_ = res.Body.Close()
		return nil, errors.New("it answers with another protocol")
	}
	return conn, nil
}
