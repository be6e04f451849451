package apt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"spore/builder/store"
)

// download is one file of the archive whose size and hash are known.
type download struct {
	// name is what a user calls it.
	name string
	// base is the URI of the archive, path the file below it.
	base, path string
	key        store.Key
	size       int64
	// done is called when the store has the file. Only all calls it.
	done func()
	// others are further places, asked in turn when the one before does not give the file.
	others []location
	// gone, when not nil, is told that no place has the file, which then fails nothing.
	gone func(error)
}

// location is a file of an archive.
type location struct{ base, path string }

// permanentError is one that another attempt would not cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func permanent(format string, args ...any) error {
	return permanentError{fmt.Errorf(format, args...)}
}

// downloader fetches files over HTTP.
type downloader struct {
	store    *store.Store
	client   *http.Client
	parallel int
	retries  int
	backoff  time.Duration
	stall    time.Duration
}

func newDownloader(o *Options, conf Conf) *downloader {
	t := &http.Transport{ForceAttemptHTTP2: true}
	if o.Transport != nil {
		t = o.Transport.Clone()
	}
	t.Proxy = proxyFunc(conf, t.Proxy)
	t.MaxIdleConnsPerHost = o.Parallel
	t.ResponseHeaderTimeout = o.Stall
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Timeout: o.Stall}).DialContext
	}
	return &downloader{
		store: o.Store, client: &http.Client{Transport: t}, parallel: o.Parallel, retries: o.Retries, backoff: o.Backoff, stall: o.Stall,
	}
}

// proxyFunc chooses a proxy as apt does: Acquire::SCHEME::Proxy::HOST, then Acquire::SCHEME::Proxy, where "DIRECT" is
// none; then what the transport says.
func proxyFunc(conf Conf, fallback func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		name := "acquire::" + r.URL.Scheme + "::proxy"
		text, ok := conf[name+"::"+strings.ToLower(r.URL.Hostname())]
		if !ok || text == "" {
			text = conf[name]
		}
		if text == "" && r.URL.Scheme == "https" {
			text = conf["acquire::http::proxy"] // apt-transport-https(1)
		}
		switch {
		case text == "" && fallback != nil:
			return fallback(r)
		case text == "" || strings.EqualFold(text, "DIRECT"):
			return nil, nil
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return nil, permanent("the proxy %.80q of the machine's apt settings is not a URI", text)
		}
		return u, nil
	}
}

// has reports whether the store has the object in its full size.
func (d *downloader) has(k store.Key, size int64) bool {
	info, err := os.Stat(d.store.Path(k))
	return err == nil && info.Size() == size
}

// all downloads files side by side; the first failure stops the others, and what they have so far is kept.
func (d *downloader) all(ctx context.Context, jobs []download, progress func(Progress)) error {
	var mu sync.Mutex
	p := Progress{TotalFiles: len(jobs)}
	for _, j := range jobs {
		p.Total += j.size
	}
	report := func(name string, bytes int64, files int) {
		mu.Lock()
		defer mu.Unlock()
		p.Name, p.Done, p.Files = name, p.Done+bytes, p.Files+files
		if progress != nil {
			progress(p)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(d.parallel)
	for _, j := range jobs {
		g.Go(func() error {
			err := d.anywhere(ctx, j, func(n int64) { report(j.name, n, 0) })
			if j.gone != nil && errors.Is(err, errNotThere) {
				j.gone(err)
				return nil
			}
			if err != nil {
				return fmt.Errorf("download %s: %w", j.name, err)
			}
			report(j.name, 0, 1)
			j.done()
			return nil
		})
	}
	return g.Wait()
}

// anywhere downloads a file from the first of its places that gives it. The error is errNotThere when every place has said so.
func (d *downloader) anywhere(ctx context.Context, j download, moved func(int64)) error {
	err := d.one(ctx, j, moved)
	for _, other := range j.others {
		if err == nil || ctx.Err() != nil {
			return err
		}
		first := err
		j.base, j.path = other.base, other.path
		switch err = d.one(ctx, j, moved); {
		case err == nil:
		case !errors.Is(first, errNotThere):
			err = first // a place that could not be asked may have it
		}
	}
	return err
}

// one downloads a file into the store. What an earlier attempt, or an earlier run, has of it is used.
func (d *downloader) one(ctx context.Context, j download, moved func(int64)) error {
	if d.has(j.key, j.size) {
		return nil
	}
	f, err := d.partial(ctx, j.key)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.has(j.key, j.size) { // another process was faster
		return os.Remove(f.Name())
	}
	t := transfer{downloader: d, download: j, file: f, moved: moved}
	if err := d.retry(ctx, t.attempt); err != nil {
		return err
	}
	return d.store.Adopt(j.key, f.Name())
}

// retry calls fn until it succeeds, fails for good, or has used up its attempts.
func (d *downloader) retry(ctx context.Context, fn func(context.Context) error) error {
	for n := 0; ; n++ {
		err := fn(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.As(err, &permanentError{}) {
			return err
		}
		if n >= d.retries {
			return fmt.Errorf("%w (gave up after %d attempts)", err, n+1)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d.backoff << min(n, 6)):
		}
	}
}

// partial opens the file that a download grows in and locks it against other processes.
func (d *downloader) partial(ctx context.Context, k store.Key) (*os.File, error) {
	name := filepath.Join(d.store.PartialDir(), k.String())
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && sameFile(f, name) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sameFile reports whether the name still is the open file: its holder may have finished it and moved it away.
func sameFile(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// transfer is the download of one file, over any number of attempts.
type transfer struct {
	*downloader
	download
	file  *os.File
	moved func(int64)
	done  int64 // bytes that were reported
}

// report tells how many bytes of the file are there now.
func (t *transfer) report(have int64) {
	t.moved(have - t.done)
	t.done = have
}

func (t *transfer) restart() error {
	t.report(0)
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return t.file.Truncate(0)
}

// attempt asks for what is missing, adds it, and checks the whole.
func (t *transfer) attempt(ctx context.Context) error {
	hash := sha256.New()
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	have, err := io.Copy(hash, t.file)
	if err != nil {
		return err
	}
	if have > t.size {
		hash.Reset()
		have = 0
		if err := t.restart(); err != nil {
			return err
		}
	}
	t.report(have)
	resumed := have > 0
	if have < t.size {
		from, body, err := t.request(ctx, have)
		if err != nil {
			return err
		}
		defer body.Close()
		if from == 0 {
			hash.Reset()
			resumed = false
			if err := t.restart(); err != nil {
				return err
			}
		}
		if err := t.copy(body, hash, from); err != nil {
			return err
		}
	}
	if store.Key(hash.Sum(nil)) == t.key {
		return nil
	}
	if err := t.restart(); err != nil {
		return err
	}
	text := fmt.Sprintf("%s: its SHA-256 is %x and not %s as the index says", t.url(), hash.Sum(nil), t.key)
	if resumed {
		return errors.New(text) // what was there before may be the wrong part
	}
	return permanent("%s: the mirror is damaged or lies; use another mirror", text)
}

// copy adds the body to the file and the hash, never more than the file may have.
func (t *transfer) copy(body io.Reader, hash io.Writer, have int64) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if have+int64(n) > t.size {
			if err := t.restart(); err != nil {
				return err
			}
			return permanent("%s: the mirror sends more than the %d bytes that the index says; use another mirror", t.url(), t.size)
		}
		if n > 0 {
			if _, err := t.file.Write(buf[:n]); err != nil {
				return permanentError{err}
			}
			hash.Write(buf[:n])
			have += int64(n)
			t.report(have)
		}
		switch {
		case err == io.EOF && have == t.size:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%s: the file ends after %d of %d bytes", t.url(), have, t.size)
		case err != nil:
			return fmt.Errorf("%s: the connection broke after %d of %d bytes: %w", t.url(), have, t.size, err)
		}
	}
}

func (t *transfer) url() string { return redact(t.base) + "/" + t.path }
