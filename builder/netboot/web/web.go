// Package web is the HTTP server of network boot: the files of the folder that `spore build --format netboot` makes, with ranges,
// and the scripts by which iPXE finds out what to do with a machine.
//
// What is sent is public, and whoever takes it checks it against the root hash in its own kernel image; so there is no TLS, which
// firmware seldom has. Everything is bounded: connections, headers, bodies, and how long a client may be silent.
package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"spore/builder/media"
	"spore/builder/netboot/ipxe"
	"spore/builder/netboot/roster"
	"spore/cluster/identity"
)

// Bounds.
const (
	maxConnections = 1024
	maxHeader      = 8 << 10
	// maxBody bounds what is posted, in bytes.
	maxBody = 64 << 10
	// stall is how long a client may take for the next chunk of a file, chunk how long that is in bytes.
	stall = time.Minute
	chunk = 256 << 10
	// sendBuffer is what the kernel keeps for one client that has not taken it yet, in bytes: enough for a gigabit at 4 ms.
	// The kernel would let it grow to megabytes for some clients, and those would get more than others.
	sendBuffer = 512 << 10
	// headerTime is how long a request may take to come, idle how long a connection may wait for the next one.
	headerTime = 10 * time.Second
	idle       = time.Minute
	// maxValue is the longest value that a machine says of itself.
	maxValue = 128
	maxMACs  = 16
)

// Options describe a server.
type Options struct {
	// Dir is the folder. Its files are opened at each request, so that it can be exchanged for that of another build.
	Dir string
	// Base is the URL of the folder, which ends in a slash, where a request does not say by which name the server was found.
	// Listen fills it in.
	Base string
	// Roster says who a machine is.
	Roster *roster.Roster
	// Install says what a node is to do beside booting: kernel arguments, or to start from its disk. May be nil.
	Install func(node string) (arguments []string, fromDisk bool)
	// Installed is told that a node has the system on the disk that the order to install named, and says whether there was such
	// an order. May be nil.
	Installed func(node, disk string) bool
	// Answers is the answer file of a node, or nothing. May be nil.
	Answers func(node string) []byte
	// Enroll takes what machines without a bundle post. May be nil.
	Enroll http.Handler
	// Seen is told of a machine that asked for its script; Sent of a file that was sent. Both may be nil.
	Seen func(m roster.Machine, fresh bool)
	Sent func(s Sent)
}

// Sent is a file, or a part of one, that a machine took.
type Sent struct {
	// Client is the machine's address.
	Client string
	Name   string
	// Bytes were sent; Whole says that they are all of the file.
	Bytes int64
	Whole bool
	Took  time.Duration
}

// files are those of the folder that can be read, with their media types.
var files = map[string]string{
	media.NetbootRoot: binary, media.NetbootVerity: binary, media.NetbootCluster: binary,
	ipxe.Kernel: binary, ipxe.Initrd: binary, media.NetbootCmdline: text, media.NetbootScript: text,
	// UEFI 2.10, section 24.7.7: firmware knows a program by this type.
	ipxe.UKI: "application/efi",
}

const (
	binary = "application/octet-stream"
	text   = "text/plain; charset=utf-8"
)

// Handler answers the requests.
func Handler(o Options) http.Handler {
	h := &handler{o}
	mux := http.NewServeMux()
	for name, kind := range files {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { h.file(w, r, name, kind) })
	}
	mux.HandleFunc("GET /"+media.NetbootLoaders+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		h.file(w, r, path.Join(media.NetbootLoaders, path.Base(path.Clean("/"+r.PathValue("name")))), binary)
	})
	mux.HandleFunc("GET /"+ipxe.Start, func(w http.ResponseWriter, _ *http.Request) { script(w, ipxe.First()) })
	mux.HandleFunc("GET /"+ipxe.Asking, h.node)
	if o.Enroll != nil {
		mux.Handle("POST /enroll", http.MaxBytesHandler(o.Enroll, maxBody))
	}
	mux.HandleFunc("POST /installed", h.installed)
	mux.HandleFunc("GET /answers", h.answers)
	mux.HandleFunc("GET /{$}", h.index)
	return mux
}

// Server is an HTTP server that is listening.
type Server struct {
	listener net.Listener
	base     string
	http     *http.Server
}

// Base is the URL of the folder; it ends in a slash.
func (s *Server) Base() string { return s.base }

// Listen opens the port at an address of this machine.
func Listen(ctx context.Context, address netip.AddrPort, o Options) (*Server, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp4", address.String())
	if err != nil {
		return nil, fmt.Errorf("listen on TCP port %d of %s for HTTP: %w", address.Port(), address.Addr(), err)
	}
	// The port may be one that the kernel has chosen.
	at := l.Addr().(*net.TCPAddr).AddrPort()
	o.Base = "http://" + at.String() + "/"
	if at.Port() == 80 {
		o.Base = "http://" + at.Addr().String() + "/"
	}
	limited := &limitedListener{l.(*net.TCPListener), make(chan struct{}, maxConnections)}
	return &Server{limited, o.Base, &http.Server{
		Handler: Handler(o), ReadHeaderTimeout: headerTime, ReadTimeout: stall, WriteTimeout: stall, IdleTimeout: idle, MaxHeaderBytes: maxHeader,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tcp, ok := c.(*net.TCPConn); ok {
				// Without it the server works as well.
				_ = tcp.SetWriteBuffer(sendBuffer)
			}
			return ctx
		},
		ConnState: limited.state,
		// What it logs are connections that end in the middle, which is what firmware does.
		ErrorLog: log.New(io.Discard, "", 0),
	}}, nil
}

// Address is where the server listens.
func (s *Server) Address() netip.AddrPort { return s.listener.Addr().(*net.TCPAddr).AddrPort() }

// Close ends everything at once.
func (s *Server) Close() { s.http.Close(); s.listener.Close() }

// Serve answers until the context ends; transfers end with it, for machines try again.
func (s *Server) Serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.Close)()
	if err := s.http.Serve(s.listener); ctx.Err() == nil {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// limitedListener takes no more connections than it has places; the others wait in the kernel's queue. It hands on the
// connections as they are: golang.org/x/net/netutil wraps them, and net/http uses sendfile(2) with a *net.TCPConn alone.
type limitedListener struct {
	*net.TCPListener
	places chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	c, err := l.AcceptTCP()
	if err != nil {
		<-l.places
		return nil, err
	}
	return c, nil
}

// state frees the place of a connection; each that was accepted is closed once.
func (l *limitedListener) state(_ net.Conn, s http.ConnState) {
	if s == http.StateClosed || s == http.StateHijacked {
		<-l.places
	}
}

type handler struct{ o Options }

// file sends a file, or the ranges of it that are asked for.
func (h *handler) file(w http.ResponseWriter, r *http.Request, name, kind string) {
	began := time.Now()
	f, err := os.Open(filepath.Join(h.o.Dir, filepath.FromSlash(name)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("ETag", etag(info))
	p := &paced{ResponseWriter: w, control: http.NewResponseController(w)}
	http.ServeContent(p, r, "", info.ModTime(), f)
	if r.Method == http.MethodGet && h.o.Sent != nil {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		h.o.Sent(Sent{client, name, p.sent, p.sent == info.Size(), time.Since(began)})
	}
}

// etag tells one build's file from another's, so that a download is not resumed in a file of another build (RFC 9110, section 13.1.5).
func etag(info os.FileInfo) string {
	var inode uint64
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = s.Ino
	}
	return fmt.Sprintf(`"%x-%x-%x"`, inode, info.Size(), info.ModTime().UnixNano())
}

// paced gives each chunk of a file a time of its own. A limit for the whole file would cut slow networks off, none would let
// clients that are gone keep their connection. The chunks go from file to socket inside the kernel.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
	sent    int64
}

func (p *paced) Write(b []byte) (int, error) {
	// An error shows at the write.
	_ = p.control.SetWriteDeadline(time.Now().Add(stall))
	n, err := p.ResponseWriter.Write(b)
	p.sent += int64(n)
	return n, err
}

// ReadFrom is what net/http's copy ends in. It is handed on with the file as it is, one limit around it: only so is it sent by
// sendfile(2).
func (p *paced) ReadFrom(r io.Reader) (int64, error) {
	to, ok := p.ResponseWriter.(io.ReaderFrom)
	limited, isLimited := r.(*io.LimitedReader)
	if !ok || !isLimited {
		return io.Copy(struct{ io.Writer }{p}, r)
	}
	var total int64
	for limited.N > 0 {
		_ = p.control.SetWriteDeadline(time.Now().Add(stall))
		want := min(limited.N, chunk)
		n, err := to.ReadFrom(&io.LimitedReader{R: limited.R, N: want})
		total, p.sent, limited.N = total+n, p.sent+n, limited.N-n
		if err != nil || n < want {
			return total, err
		}
		// A client that takes as fast as this sends would have the processor to itself, while others wait.
		runtime.Gosched()
	}
	return total, nil
}

// node answers iPXE's first script: what to do with this machine.
func (h *handler) node(w http.ResponseWriter, r *http.Request) {
	said, err := parseMachine(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if said.Address == "" {
		said.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	m, fresh := h.o.Roster.Seen(said)
	if h.o.Seen != nil {
		h.o.Seen(m, fresh)
	}
	data, err := h.script(m, h.base(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	script(w, data)
}

func (h *handler) script(m roster.Machine, base string) ([]byte, error) {
	cmdline, err := os.ReadFile(filepath.Join(h.o.Dir, media.NetbootCmdline))
	if err != nil {
		return nil, errors.New("the folder has no command line; build it again")
	}
	image := ipxe.Image{Cluster: h.o.Roster.Nodes().Cluster.Name, Cmdline: string(cmdline)}
	if m.Node == "" {
		return ipxe.Unknown(image, ipxe.Machine{MACs: m.MACs, Serial: m.Serial, UUID: m.UUID, Address: m.Address, Hostname: m.Hostname}, m.Problem, base)
	}
	n := ipxe.Node{Name: m.Node, Why: m.Why, Base: base}
	if h.o.Install != nil {
		arguments, fromDisk := h.o.Install(m.Node)
		if fromDisk {
			return ipxe.Disk(m.Node), nil
		}
		n.Arguments = arguments
	}
	return ipxe.Known(image, n)
}

// installed takes the word of a machine that has installed itself. Nobody proves who he is here, as nowhere in network boot; what
// a lie does is that a machine starts from its disk, which it does without this server, too.
func (h *handler) installed(w http.ResponseWriter, r *http.Request) {
	said, err := parseMachine(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said.Did = "installed itself"
	said.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
	m, _ := h.o.Roster.Seen(said)
	if m.Node == "" || h.o.Installed == nil || !h.o.Installed(m.Node, r.URL.Query().Get("disk")) {
		http.Error(w, "this server gave no such order", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// answers sends a machine its answer file. It has no secret, and the machine checks it.
func (h *handler) answers(w http.ResponseWriter, r *http.Request) {
	said, err := parseMachine(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said.Did = "asked how to install itself"
	said.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
	m, _ := h.o.Roster.Seen(said)
	var data []byte
	if m.Node != "" && h.o.Answers != nil {
		data = h.o.Answers(m.Node)
	}
	if len(data) == 0 {
		http.Error(w, "this server has no answer file for this machine", http.StatusNotFound)
		return
	}
	script(w, data)
}

// base is the URL by which the machine has found the server: behind a forwarded port or a router it is not the server's own.
func (h *handler) base(r *http.Request) string {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, ""
	}
	// An address and nothing else; stage1 has no resolver, and what is in the header comes from anywhere.
	if a, err := netip.ParseAddr(host); err != nil || !a.Is4() {
		return h.o.Base
	}
	if port == "" {
		return "http://" + host + "/"
	}
	if p, err := netip.ParseAddrPort(net.JoinHostPort(host, port)); err == nil {
		return "http://" + p.String() + "/"
	}
	return h.o.Base
}

// parseMachine reads what a machine says of itself in the query of the script's URL. Values that cannot be are left out: they
// come out of firmware, and a machine without a serial number says nothing or anything.
func parseMachine(query string) (roster.Machine, error) {
	var m roster.Machine
	q, err := url.ParseQuery(query)
	if err != nil {
		return m, fmt.Errorf("the query cannot be read: %w", err)
	}
	for _, v := range q["mac"] {
		if mac, err := identity.Normalize(identity.MAC, v); err == nil && len(m.MACs) < maxMACs && !slices.Contains(m.MACs, mac) {
			m.MACs = append(m.MACs, mac)
		}
	}
	plain := func(key string) string {
		v := strings.TrimSpace(q.Get(key))
		if len(v) > maxValue || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
			return ""
		}
		return v
	}
	m.Serial, m.Hostname = plain("serial"), plain("hostname")
	if uuid, err := identity.Normalize(identity.UUID, plain("uuid")); err == nil {
		m.UUID = uuid
	}
	if a, err := netip.ParseAddr(plain("ip")); err == nil && a.Zone() == "" && !a.IsUnspecified() {
		m.Address = a.String()
	}
	m.Did = "asked what to boot, by iPXE"
	return m, nil
}

func script(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", text)
	// The next answer may be another one.
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(data)
}

// index is for people.
func (h *handler) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", text)
	base := h.base(r)
	fmt.Fprintf(w, "Spore, cluster %s\n\n%s  for iPXE: each machine is asked who it is\n%s   for iPXE of your own, and any web server\n", h.o.Roster.Nodes().Cluster.Name, base+ipxe.Start, base+media.NetbootScript)
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		fmt.Fprintln(w, base+name)
	}
}
