// Package control is how a second command speaks with a `spore serve` that is running: HTTP over a Unix socket in the output
// folder, which only the same user (and root) can open.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/builder/netboot"
	"spore/pki/bundle"
	"spore/pki/enroll"
)

// Name is the socket's in the output folder.
const Name = "serve.sock"

// timeout bounds one request.
const timeout = time.Minute

// ErrNone says that nobody serves a folder.
var ErrNone = errors.New("no `spore serve` is running for this folder")

// Server is what is controlled; *netboot.Server is one.
type Server interface {
	State() netboot.State
	Approve(a enroll.Approval) error
	Challenge(fingerprint string, nonce []byte) error
	Deny(fingerprint string) error
}

// order is what is posted about a machine.
type order struct {
	Fingerprint string           `json:"fingerprint,omitempty"`
	Approval    *enroll.Approval `json:"approval,omitempty"`
	Nonce       []byte           `json:"nonce,omitempty"`
}

// maxOrder bounds it, in bytes: base64 makes four bytes of three, and a bundle that is encrypted to a TPM has been in
// it before.
const maxOrder = 4 * bundle.MaxSize

// socket is a path to the socket that is short enough for any folder: unix(7) allows 107 characters. The folder is to stay open
// as long as the path is used.
func socket(out string) (dir *os.File, path string, err error) {
	if dir, err = os.Open(out); err != nil {
		return nil, "", err
	}
	return dir, fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), Name), nil
}

// Serve listens, and answers until the context ends.
func Serve(ctx context.Context, out string, s Server) error {
	l, err := Listen(out)
	if err != nil {
		return err
	}
	return ServeOn(ctx, l, s)
}

// Listener is the socket. Close takes it out of the folder.
type Listener struct {
	*net.UnixListener
	dir *os.File
}

// Close implements net.Listener.
func (l *Listener) Close() error { return errors.Join(l.UnixListener.Close(), l.dir.Close()) }

// Listen makes the socket in the output folder.
func Listen(out string) (*Listener, error) {
	dir, path, err := socket(out)
	if err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		dir.Close()
		return nil, fmt.Errorf("another `spore serve` is running for %s", out)
	}
	// What is left of one that was killed.
	_ = os.Remove(path)
	mask := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	unix.Umask(mask)
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("listen on %s: %w", filepath.Join(out, Name), err)
	}
	return &Listener{l, dir}, nil
}

// ServeOn answers on a socket until the context ends.
func ServeOn(ctx context.Context, l net.Listener, s Server) error {
	server := &http.Server{Handler: handler(s), ReadTimeout: timeout, WriteTimeout: timeout, MaxHeaderBytes: 8 << 10}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve %s: %w", Name, err)
	}
	return nil
}

func handler(s Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.State())
	})
	post := func(do func(o order) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var o order
			err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(&o)
			if err == nil {
				err = do(o)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		}
	}
	mux.HandleFunc("POST /approve", post(func(o order) error {
		if o.Approval == nil || len(o.Approval.Sealed) == 0 {
			return errors.New("an approval comes with a bundle")
		}
		return s.Approve(*o.Approval)
	}))
	mux.HandleFunc("POST /challenge", post(func(o order) error { return s.Challenge(o.Fingerprint, o.Nonce) }))
	mux.HandleFunc("POST /deny", post(func(o order) error { return s.Deny(o.Fingerprint) }))
	return mux
}

// State asks what the server knows.
func State(ctx context.Context, out string) (netboot.State, error) {
	var state netboot.State
	data, err := request(ctx, out, http.MethodGet, "/state", nil)
	if err != nil {
		return state, err
	}
	return state, json.Unmarshal(data, &state)
}

// Approve hands a machine's bundle over, which is encrypted to it.
func Approve(ctx context.Context, out string, a enroll.Approval) error {
	_, err := request(ctx, out, http.MethodPost, "/approve", order{Approval: &a})
	return err
}

// Challenge has a machine's TPM asked with a nonce.
func Challenge(ctx context.Context, out, fingerprint string, nonce []byte) error {
	_, err := request(ctx, out, http.MethodPost, "/challenge", order{Fingerprint: fingerprint, Nonce: nonce})
	return err
}

// Deny refuses a machine.
func Deny(ctx context.Context, out, fingerprint string) error {
	_, err := request(ctx, out, http.MethodPost, "/deny", order{Fingerprint: fingerprint})
	return err
}

func request(ctx context.Context, out, method, path string, body any) ([]byte, error) {
	dir, name, err := socket(out)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://serve"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", name)
	}}
	answer, err := transport.RoundTrip(r)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("%s: %w", out, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("speak with `spore serve`: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return nil, fmt.Errorf("speak with `spore serve`: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(Printable(strings.TrimSpace(string(text))))
	}
	return text, nil
}

// Printable takes out of a text what a terminal would act on. The server is on the network; what it says is shown to
// the operator.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
