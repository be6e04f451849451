package kubeapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Bounds of the client.
const (
	// maxAnswer bounds an answer in bytes; an object has at most 1.5 MiB in etcd, and a list comes in pages.
	maxAnswer = 64 << 20
	// pageSize is how many objects of a list come at once.
	pageSize = 500
	// requestTime bounds a request that is not a watch, on a machine of usual speed.
	requestTime = 30 * time.Second
	// watchTime is how long a watch goes on before it is asked for anew.
	watchTime = 10 * time.Minute
	// silence is how long a connection may be silent before it is asked whether it is still there.
	silence = 30 * time.Second
)

// fieldManager is whom server-side apply says that our fields belong to.
const fieldManager = "spore"

// Credentials say which API server is meant and who asks; all is PEM.
type Credentials struct {
	// Server is its URL, such as https://127.0.0.1:6444.
	Server string
	// Authorities are whom its certificate may be from.
	Authorities []byte
	// Certificate and Key are the client's.
	Certificate, Key []byte
}

// Client speaks to the Kubernetes API.
type Client struct {
	server string
	http   *http.Client
	// time bounds a request, and most its answer in bytes; 0 is maxAnswer.
	time time.Duration
	most int64
	// as is for whom the API server is to take the client (Looker); empty for whom it is.
	as string
}

// NewClient returns a client. slow is the factor by which the machines are slower than usual ones.
func NewClient(c Credentials, slow int) (*Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.Authorities) {
		return nil, errors.New("client of the Kubernetes API: the file of its authorities has no certificate")
	}
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return nil, fmt.Errorf("client of the Kubernetes API: %w", err)
	}
	factor := time.Duration(max(slow, 1))
	return &Client{server: c.Server, time: requestTime * factor, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}},
		TLSHandshakeTimeout: 10 * time.Second * factor,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: 15 * time.Second * factor},
	}}}, nil
}

// StatusError is what the API server answers instead of doing what was asked (meta/v1, Status).
type StatusError struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the API server answers %d", e.Code)
	}
	return fmt.Sprintf("the API server answers %d: %s", e.Code, e.Message)
}

// isStatus tells whether an error is an answer with this code.
func isStatus(err error, code int) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Code == code
}

// Object is any object of the API.
type Object map[string]any

// meta is the part of an object that all have.
type meta struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Continue        string            `json:"continue"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
}

// Ready asks whether the API server says that it is ready.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/readyz", "", nil, nil)
}

// Apply makes an object be as given, fields that it does not name left alone (server-side apply). With force it takes
// fields over that others have set.
func (c *Client) Apply(ctx context.Context, o Object, force bool) error {
	path, err := pathOf(o)
	if err != nil {
		return err
	}
	q := url.Values{"fieldManager": {fieldManager}, "force": {strconv.FormatBool(force)}}
	return c.do(ctx, http.MethodPatch, path+"?"+q.Encode(), "application/apply-patch+yaml", o, nil)
}

// get reads an object.
func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}

// merge changes the named fields of an object (RFC 7396).
func (c *Client) merge(ctx context.Context, path string, o Object) error {
	return c.do(ctx, http.MethodPatch, path+"?fieldManager="+fieldManager, "application/merge-patch+json", o, nil)
}

// put replaces an object; one that has changed since it was read is an error 409.
func (c *Client) put(ctx context.Context, path string, o Object) error {
	return c.do(ctx, http.MethodPut, path+"?fieldManager="+fieldManager, "application/json", o, nil)
}

func (c *Client) do(ctx context.Context, method, path, kind string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	answer, err := c.send(ctx, method, path, kind, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	most := cmp.Or(c.most, maxAnswer)
	data, err := io.ReadAll(io.LimitReader(answer, most+1))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if int64(len(data)) > most {
		return fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, most)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// send returns the body of an answer that is a success.
func (c *Client) send(ctx context.Context, method, path, kind string, body any) (io.ReadCloser, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("internal error: %s %s: %w", method, path, err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, content)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if c.as != "" {
		req.Header.Set("Impersonate-User", c.as)
		req.Header.Set("Impersonate-Group", lookers)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err // has method and URL
	}
	if res.StatusCode/100 == 2 {
		return res.Body, nil
	}
	defer res.Body.Close()
	status := &StatusError{}
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || json.Unmarshal(data, status) != nil {
		status.Message = string(bytes.TrimSpace(data[:min(len(data), 200)])) // /readyz answers with text
	}
	status.Code = res.StatusCode
	return nil, fmt.Errorf("%s %s: %w", method, path, status)
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// list calls each for every object of a collection and returns the state of the collection from which to watch.
// selector is of labels, empty for all.
func (c *Client) list(ctx context.Context, path, selector string, each func(json.RawMessage) error) (string, error) {
	next := ""
	for {
		var page struct {
			meta
			Items []json.RawMessage `json:"items"`
		}
		q := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if selector != "" {
			q.Set("labelSelector", selector)
		}
		if next != "" {
			q.Set("continue", next)
		}
		if err := c.get(ctx, path+"?"+q.Encode(), &page); err != nil {
			return "", err
		}
		for _, item := range page.Items {
			if err := each(item); err != nil {
				return "", err
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return page.Metadata.ResourceVersion, nil
		}
	}
}

// errGone is a state of a collection that the API server has no longer; it has to be listed again.
var errGone = errors.New("the API server has forgotten where the watch was")

// watch calls each for every change of a collection since a state of it and returns the state where it ended, which the
// API server does every few minutes.
func (c *Client) watch(ctx context.Context, path, version string, each func(deleted bool, o json.RawMessage) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTime+c.time)
	defer cancel()
	q := url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(int(watchTime.Seconds()))},
	}
	body, err := c.send(ctx, http.MethodGet, path+"?"+q.Encode(), "", nil)
	if isStatus(err, http.StatusGone) {
		return "", errGone
	}
	if err != nil {
		return "", err
	}
	defer body.Close()
	lines := json.NewDecoder(body)
	for {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return version, nil
		} else if err != nil {
			return "", fmt.Errorf("watch %s: %w", path, err)
		}
		if e.Type == "ERROR" {
			return "", watchError(path, e.Object)
		}
		var m meta
		if err := json.Unmarshal(e.Object, &m); err != nil {
			return "", fmt.Errorf("watch %s: %w", path, err)
		}
		version = m.Metadata.ResourceVersion
		if e.Type == "BOOKMARK" {
			continue
		}
		if err := each(e.Type == "DELETED", e.Object); err != nil {
			return "", err
		}
	}
}

func watchError(path string, o json.RawMessage) error {
	status := &StatusError{}
	if err := json.Unmarshal(o, status); err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	if status.Code == http.StatusGone {
		return errGone
	}
	return fmt.Errorf("watch %s: %w", path, status)
}

// follow calls listed when it begins and again whenever it has to begin anew, and each for every object of a collection
// as it is and as it changes. It returns when the API server is lost, or with the error of each.
func (c *Client) follow(ctx context.Context, path string, listed func() error, each func(deleted bool, o json.RawMessage) error) error {
	for {
		version, err := c.list(ctx, path, "", func(o json.RawMessage) error { return each(false, o) })
		if isStatus(err, http.StatusGone) { // between two pages
			continue
		}
		if err != nil {
			return err
		}
		if err := listed(); err != nil {
			return err
		}
		for err == nil {
			version, err = c.watch(ctx, path, version, each)
		}
		if !errors.Is(err, errGone) {
			return err
		}
	}
}
