package apt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// redact is a URI without its password.
func redact(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return "(a bad URI)"
	}
	return u.Redacted()
}

// get asks for a file below a base. The body fails when the connection is silent for too long.
func (d *downloader) get(ctx context.Context, base, path, byteRange string) (*http.Response, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, permanentError{err}
	}
	u = u.JoinPath(path)
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, permanentError{err}
	}
	req.Header.Set("User-Agent", "spore")
	// The bytes as they are: hashes are of the file and not of a transfer encoding.
	req.Header.Set("Accept-Encoding", "identity")
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		cancel(nil)
		return nil, err // *url.Error names the URI, without a password
	}
	stalled := fmt.Errorf("no data for %s", d.stall)
	resp.Body = &stallReader{
		ReadCloser: resp.Body, ctx: ctx, cancel: cancel, stall: d.stall, timer: time.AfterFunc(d.stall, func() { cancel(stalled) }),
	}
	return resp, nil
}

// stallReader ends a body that stays silent.
type stallReader struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  time.Duration
	timer  *time.Timer
}

func (s *stallReader) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.timer.Reset(s.stall)
	if cause := context.Cause(s.ctx); err != nil && err != io.EOF && cause != nil {
		err = cause
	}
	return n, err
}

func (s *stallReader) Close() error {
	s.timer.Stop()
	s.cancel(nil)
	return s.ReadCloser.Close()
}

// statusError is an answer that is not the file.
func statusError(where string, resp *http.Response) error {
	err := fmt.Errorf("%s: the mirror answers %s", where, resp.Status)
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusGone:
		return permanentError{fmt.Errorf("%w: %w", err, errNotThere)}
	case code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests:
		return err
	}
	return permanentError{err}
}

// errNotThere marks the answers 404 and 410.
var errNotThere = errors.New("it does not have the file; the index may be out of date, or the mirror incomplete")

// request asks for the file from an offset on and returns the offset at which the body begins: the one asked for, or 0
// from a server that cannot resume.
func (t *transfer) request(ctx context.Context, have int64) (from int64, body io.ReadCloser, err error) {
	want := ""
	if have > 0 {
		want = fmt.Sprintf("bytes=%d-", have)
	}
	resp, err := t.get(ctx, t.base, t.path, want)
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if err != nil {
			resp.Body.Close()
		}
	}()
	switch resp.StatusCode {
	case http.StatusOK:
		have = 0
	case http.StatusPartialContent:
		if got := resp.Header.Get("Content-Range"); have == 0 || got != fmt.Sprintf("bytes %d-%d/%d", have, t.size-1, t.size) {
			return 0, nil, errors.Join(fmt.Errorf("%s: the mirror sends the range %.60q of a file of %d bytes", t.url(), got, t.size), t.restart())
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return 0, nil, errors.Join(fmt.Errorf("%s: the mirror has less than %d bytes of the file", t.url(), t.size), t.restart())
	default:
		return 0, nil, statusError(t.url(), resp)
	}
	if n := resp.ContentLength; n >= 0 && n != t.size-have {
		return 0, nil, permanent("%s: the mirror's file has %d bytes and not %d as the index says; use another mirror", t.url(), have+n, t.size)
	}
	return have, resp.Body, nil
}

// small fetches a file of unknown size into memory.
func (d *downloader) small(ctx context.Context, base, path string, max int64) ([]byte, error) {
	var data []byte
	err := d.retry(ctx, func(ctx context.Context) error {
		resp, err := d.get(ctx, base, path, "")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		where := redact(base) + "/" + path
		if resp.StatusCode != http.StatusOK {
			return statusError(where, resp)
		}
		if data, err = readAllMax(resp.Body, max); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		return nil
	})
	return data, err
}

// readAllMax is io.ReadAll that fails beyond a size.
func readAllMax(r io.Reader, max int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > max {
		return nil, permanent("more than %d bytes", max)
	}
	return data, nil
}
