// Package httpget asks an HTTP/1.1 server for a file from some byte on (RFC 9110, RFC 9112), for stage1: net/http, with TLS,
// is larger than all of stage1.
//
// It follows no redirect, knows no transfer coding and no TLS: what is fetched is checked against a hash that the kernel was
// built with. Each answer says how long it is, or is refused.
package httpget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"
)

// Bounds.
const (
	maxURL     = 1024
	maxLine    = 4096
	maxHeaders = 64
)

// URL is one of the scheme http.
type URL struct {
	// Host is a name or an IP address, with a port behind a colon where it is not 80.
	Host string
	// Path begins with a slash and is sent as it is, with what follows a question mark.
	Path string
}

// ParseURL reads a URL; user names, other schemes and everything that is not printable ASCII are errors.
func ParseURL(s string) (URL, error) {
	bad := func(why string) (URL, error) { return URL{}, fmt.Errorf("the URL %.200q %s", s, why) }
	if len(s) > maxURL {
		return URL{}, fmt.Errorf("a URL of %d bytes", len(s))
	}
	for _, c := range []byte(s) {
		if c <= 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '#' {
			return bad("has a character that no URL of a file has")
		}
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !strings.EqualFold(scheme, "http") {
		return bad("is not of http://; the image is checked by its hash, and needs no TLS")
	}
	host, file, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(host, "?@") || host == "" {
		return bad("names no host")
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "80"
		if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
			name = host[1 : len(host)-1]
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return bad("has no valid port")
	}
	if _, err := netip.ParseAddr(name); err != nil && !hostName(name) {
		return bad("names no host")
	}
	return URL{Host: host, Path: "/" + file}, nil
}

func hostName(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) < 254
}

// String is the URL as it is written.
func (u URL) String() string { return "http://" + u.Host + u.Path }

// Base is the folder that the URL's file is in; it ends in a slash.
func (u URL) Base() URL {
	p, _, _ := strings.Cut(u.Path, "?")
	return URL{Host: u.Host, Path: p[:strings.LastIndexByte(p, '/')+1]}
}

// File is a file in the folder u.
func (u URL) File(name string) URL {
	return URL{Host: u.Host, Path: strings.TrimSuffix(u.Path, "/") + path.Join("/", name)}
}

// address is where to connect to.
func (u URL) address() string {
	if _, _, err := net.SplitHostPort(u.Host); err == nil {
		return u.Host
	}
	return net.JoinHostPort(strings.Trim(u.Host, "[]"), "80")
}

// Client asks.
type Client struct {
	// Dial connects; a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Idle is the longest silence of a server, in connecting, too.
	Idle time.Duration
}

// Body is the content of a file from a byte on. Whoever reads closes it.
type Body struct {
	// Size is that of the whole file in bytes.
	Size int64
	r    io.Reader
	left int64
	conn net.Conn
	stop func() bool
	idle time.Duration
}

// Get asks for a file from byte from on. A server that knows no ranges sends all of it, and the beginning is read over.
func (c Client) Get(ctx context.Context, u URL, from int64) (*Body, error) {
	wrap := func(err error) error { return fmt.Errorf("GET %s: %w", u, err) }
	dialCtx, cancel := context.WithTimeout(ctx, c.Idle)
	defer cancel()
	conn, err := c.Dial(dialCtx, "tcp", u.address())
	if err != nil {
		return nil, wrap(err)
	}
	b := &Body{conn: conn, idle: c.Idle, stop: context.AfterFunc(ctx, func() { conn.Close() })}
	if err := b.ask(u, from); err != nil {
		b.Close()
		return nil, wrap(err)
	}
	return b, nil
}

// Close ends the connection.
func (b *Body) Close() {
	b.stop()
	b.conn.Close()
}

// Read implements io.Reader. The end is io.EOF when all that the server announced has come, and io.ErrUnexpectedEOF before.
func (b *Body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if err := b.conn.SetReadDeadline(time.Now().Add(b.idle)); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err == io.EOF && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *Body) ask(u URL, from int64) error {
	if err := b.conn.SetDeadline(time.Now().Add(b.idle)); err != nil {
		return err
	}
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: spore-stage1\r\nAccept-Encoding: identity\r\nConnection: close\r\n", u.Path, u.Host)
	if from > 0 {
		request += fmt.Sprintf("Range: bytes=%d-\r\n", from)
	}
	if _, err := io.WriteString(b.conn, request+"\r\n"); err != nil {
		return err
	}
	r := bufio.NewReaderSize(b.conn, 64<<10)
	a, err := ReadAnswer(r)
	if err != nil {
		return err
	}
	start, err := a.start(from)
	if err != nil {
		return err
	}
	b.Size, b.r, b.left = a.Total, r, a.Total-start
	if skip := from - start; skip > 0 {
		if _, err := io.CopyN(io.Discard, b, skip); err != nil {
			return fmt.Errorf("the server knows no ranges, and reading over the first %d bytes: %w", skip, err)
		}
	}
	return nil
}

// Answer is what the head of an answer says.
type Answer struct {
	// Status is such as 200, Reason the words behind it.
	Status int
	Reason string
	// Total is the size of the whole file, First the first byte of it that follows, in bytes.
	Total, First int64
	location     string
}

// start is the first byte that follows, which is from or, with a server that knows no ranges, 0.
func (a Answer) start(from int64) (int64, error) {
	switch {
	case a.Status == 200 && a.Total >= from:
		return 0, nil
	case a.Status == 200:
		return 0, fmt.Errorf("the file has %d bytes now, and byte %d was asked for", a.Total, from)
	case a.Status == 206 && a.First == from:
		return from, nil
	case a.Status == 206:
		return 0, fmt.Errorf("the server sends from byte %d, and from %d was asked for", a.First, from)
	case a.Status >= 300 && a.Status < 400 && a.location != "":
		return 0, fmt.Errorf("the server answers %d %s: %s; a redirect is not followed", a.Status, a.Reason, a.location)
	}
	return 0, &StatusError{a.Status, a.Reason}
}

// StatusError is an answer that is not the file.
type StatusError struct {
	Status int
	Reason string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.Status, e.Reason)
}

// ReadAnswer reads the head of an answer, up to the empty line.
func ReadAnswer(r *bufio.Reader) (Answer, error) {
	line, err := readLine(r)
	if err != nil {
		return Answer{}, err
	}
	version, rest, _ := strings.Cut(line, " ")
	code, reason, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if !strings.HasPrefix(version, "HTTP/1.") || err != nil || len(code) != 3 || status < 100 {
		return Answer{}, fmt.Errorf("the answer begins with %.80q, which is not HTTP/1", line)
	}
	a := Answer{Status: status, Reason: printable(reason), Total: -1}
	length, ranged := int64(-1), ""
	for n := 0; ; n++ {
		line, err := readLine(r)
		if err != nil {
			return Answer{}, err
		}
		if line == "" {
			break
		}
		if n == maxHeaders {
			return Answer{}, fmt.Errorf("the answer has more than %d headers", maxHeaders)
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return Answer{}, fmt.Errorf("the answer has the header %.80q", line)
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-length":
			v, err := number(value)
			if err != nil || length >= 0 && v != length {
				return Answer{}, fmt.Errorf("the answer has the length %.40q", value)
			}
			length = v
		case "content-range":
			ranged = value
		case "location":
			a.location = printable(value)
		case "transfer-encoding":
			if !strings.EqualFold(value, "identity") {
				return Answer{}, fmt.Errorf("the answer has the transfer coding %.40q, without a length; serve plain files", value)
			}
		case "content-encoding":
			if !strings.EqualFold(value, "identity") {
				return Answer{}, fmt.Errorf("the answer is encoded as %.40q; serve plain files", value)
			}
		}
	}
	if a.Status == 206 {
		return a.ranged(ranged, length)
	}
	if a.Status == 200 && length < 0 {
		return Answer{}, errors.New("the answer does not say how long it is")
	}
	a.Total = length
	return a, nil
}

// ranged reads Content-Range (RFC 9110, section 14.4): "bytes 5-9/10", to the end of the file.
func (a Answer) ranged(value string, length int64) (Answer, error) {
	bad := fmt.Errorf("the answer has the range %.80q and the length %d", value, length)
	span, total, ok := strings.Cut(strings.TrimPrefix(value, "bytes "), "/")
	first, last, dash := strings.Cut(span, "-")
	if !ok || !dash || !strings.HasPrefix(value, "bytes ") {
		return Answer{}, bad
	}
	f, err1 := number(first)
	l, err2 := number(last)
	t, err3 := number(total)
	if errors.Join(err1, err2, err3) != nil || f > l || l != t-1 || length >= 0 && length != l-f+1 {
		return Answer{}, bad
	}
	a.First, a.Total = f, t
	return a, nil
}

// number reads digits and nothing else.
func number(s string) (int64, error) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, errors.New("no number")
		}
	}
	return strconv.ParseInt(s, 10, 62)
}

// readLine reads a line without its end.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		c, err := r.ReadByte()
		if err == io.EOF {
			return "", fmt.Errorf("the answer's head is cut short: %w", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return "", err
		}
		if c == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		if len(line) == maxLine {
			return "", fmt.Errorf("the answer has a line of more than %d bytes", maxLine)
		}
		line = append(line, c)
	}
}

// printable is what may be shown on a console, shortened.
func printable(s string) string {
	out := []byte(s[:min(len(s), 200)])
	for i, c := range out {
		if c < 0x20 || c > 0x7e {
			out[i] = '?'
		}
	}
	return string(out)
}
