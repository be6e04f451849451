package pull

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Source reads the files of an update by their names, such as update.head.
type Source interface {
	// Read returns all of a file, which has at most limit bytes.
	Read(ctx context.Context, name string, limit int64) ([]byte, error)
}

// Of is the source that an address names: an URL of http or https, or a directory.
func Of(from string) (Source, error) {
	u, err := url.Parse(from)
	if err != nil || !strings.Contains(from, "://") {
		root, err := os.OpenRoot(from)
		if err != nil {
			return nil, fmt.Errorf("open the folder of updates: %w", err)
		}
		return folder{root}, nil
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%.200q is not the address of a folder: give http://HOST/PATH, https://HOST/PATH "+
			"or a directory", from)
	}
	return &server{base: u, client: client(), patience: patience, pause: time.Second}, nil
}

// folder is a directory, such as that of a stick.
type folder struct{ root *os.Root }

// Read implements Source.
func (f folder) Read(_ context.Context, name string, limit int64) ([]byte, error) {
	info, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, name, limit)
}

func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return data, err
}

const (
	// patience is how long a server may fail before it is given up.
	patience = 10 * time.Minute
	// maxPause is the longest pause between two tries, requestBound the longest wait for one answer: a piece by a
	// slow link.
	maxPause     = time.Minute
	requestBound = 5 * time.Minute
	maxHeader    = 16 << 10
)

// client asks servers. Who they are is not asked: all that they give is held to a signature, and none of it is
// secret.
func client() *http.Client {
	return &http.Client{Timeout: requestBound, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		MaxResponseHeaderBytes: maxHeader, MaxConnsPerHost: ahead, MaxIdleConnsPerHost: ahead, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
}

// server is a web server with static files.
type server struct {
	base            *url.URL
	client          *http.Client
	patience, pause time.Duration
}

// Read implements Source. What may pass is tried again, with longer and longer pauses.
func (s *server) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	pause, began := s.pause, time.Now()
	for {
		data, err := s.once(ctx, name, limit)
		var final permanent
		if err == nil || errors.As(err, &final) || ctx.Err() != nil || time.Since(began)+pause > s.patience {
			return data, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
		pause = min(2*pause, maxPause)
	}
}

// permanent is an error that another try does not mend.
type permanent struct{ error }

// Unwrap returns what is wrong.
func (p permanent) Unwrap() error { return p.error }

func (s *server) once(ctx context.Context, name string, limit int64) ([]byte, error) {
	u := s.base.JoinPath(name).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, permanent{err}
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusOK:
	case res.StatusCode == http.StatusNotFound:
		return nil, permanent{fmt.Errorf("%s: %w", u, fs.ErrNotExist)}
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		return nil, fmt.Errorf("%s: the server answers %s", u, res.Status)
	default:
		return nil, permanent{fmt.Errorf("%s: the server answers %s", u, res.Status)}
	}
	data, err := readAll(res.Body, u, limit)
	if err == nil || int64(len(data)) <= limit {
		return data, err
	}
	return nil, permanent{err}
}
