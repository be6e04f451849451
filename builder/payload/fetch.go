package payload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// stall is how long a server may be silent.
const stall = 60 * time.Second

// fetch asks for a file. The caller closes it, and holds it against a checksum.
func fetch(ctx context.Context, transport http.RoundTripper, from string, m *meter) (io.ReadCloser, error) {
	if transport == nil {
		return nil, fmt.Errorf("%s is not in the cache, and this build is offline; build once without --offline", from)
	}
	m.say("fetching " + base(from))
	ctx, cancel := context.WithCancelCause(ctx)
	silent := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no data for %s", stall)) })
	body := &fetched{ctx: ctx, cancel: cancel, silent: silent, m: m, from: from}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		body.Close()
		return nil, err
	}
	req.Header.Set("User-Agent", "spore")
	// The bytes as they are: the checksum is of the file and not of a transfer encoding.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		err = fmt.Errorf("fetch %s: %w", from, body.cause(err))
		body.Close()
		return nil, err
	}
	body.ReadCloser, body.size = resp.Body, resp.ContentLength
	switch {
	case resp.StatusCode != http.StatusOK:
		body.Close()
		return nil, fmt.Errorf("fetch %s: the server answers %s", from, resp.Status)
	case resp.ContentLength > maxTaken:
		body.Close()
		return nil, fmt.Errorf("fetch %s: it has %d bytes, and at most %d are taken", from, resp.ContentLength,
			int64(maxTaken))
	}
	return body, nil
}

// fetched is a body that says how far it is, and ends when its server is silent.
type fetched struct {
	io.ReadCloser
	ctx        context.Context
	cancel     context.CancelCauseFunc
	silent     *time.Timer
	m          *meter
	from       string
	done, size int64
}

// cause is why a transfer ended, which the transport says less clearly.
func (f *fetched) cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL is in the message already
	}
	if cause := context.Cause(f.ctx); cause != nil {
		return cause
	}
	return err
}

// Read implements io.Reader.
func (f *fetched) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.silent.Reset(stall)
	f.done += int64(n)
	text := fmt.Sprintf("fetching %s, %d MiB", base(f.from), f.done>>20)
	if f.size > 0 {
		text += fmt.Sprintf(" of %d", f.size>>20)
	}
	f.m.say(text)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("fetch %s: %w", f.from, f.cause(err))
	}
	return n, err
}

// Close implements io.Closer.
func (f *fetched) Close() error {
	f.silent.Stop()
	var err error
	if f.ReadCloser != nil {
		err = f.ReadCloser.Close()
	}
	f.cancel(nil)
	return err
}
