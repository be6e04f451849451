// Package tftp hands small files to the network ROMs of machines, which load nothing in another way: iPXE's binaries.
//
// What is followed: RFC 1350, with the options of RFC 2347 (blksize, RFC 2348; timeout and tsize, RFC 2349; windowsize, RFC
// 7440). What is left out: writing, and the modes netascii and mail.
//
// Anybody can send a request in the name of somebody else's address. Until that address has answered it is sent one
// packet for each request, the first of the file or the options; what was lost before is sent again when the client
// asks again, as RFC 1350 and firmware have it.
//
// It is our own, since the one library that is kept up, github.com/pin/tftp, does not negotiate windowsize, which UEFI
// firmware asks for, and starts a goroutine with two buffers of 64 KiB for every packet on port 69 without a bound.
package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Bounds.
const (
	// maxTransfers is how many run at a time; further clients ask again a second later.
	maxTransfers = 256
	// maxPerClient keeps one machine from taking all of them.
	maxPerClient = 8
	// maxBlock fits into a frame of Ethernet with the headers of IP, UDP and TFTP, so that nothing is fragmented: small ROMs
	// cannot put fragments together.
	maxBlock = 1500 - 20 - 8 - 4
	// maxWindow bounds what is sent without an answer, to 92 KiB.
	maxWindow = 64
	// retries is how often the same window is sent before the client is given up.
	retries = 6
	// gather is how long further acknowledgements of the same block are waited for before a window is sent again.
	gather = 5 * time.Millisecond
	// limit is how long one transfer may take in all.
	limit = 10 * time.Minute
)

// Options describe a server.
type Options struct {
	// Files holds what can be read, by name.
	Files map[string][]byte
	// Report is told when a transfer has ended; the error is nil when it came through. May be nil.
	Report func(client netip.AddrPort, name string, err error)
	// Timeout is how long a client may be silent before a window is sent again, where it does not ask for another time; one
	// second when 0.
	Timeout time.Duration
}

// Server answers on one socket.
type Server struct {
	o    Options
	conn *net.UDPConn

	mu      sync.Mutex
	clients map[netip.AddrPort]*sender
	all     sync.WaitGroup
}

// Listen opens the port, which is 69 for machines that boot, at an address of this machine.
func Listen(ctx context.Context, address netip.AddrPort, o Options) (*Server, error) {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	var c net.ListenConfig
	conn, err := c.ListenPacket(ctx, "udp4", address.String())
	if err != nil {
		return nil, fmt.Errorf("listen on UDP port %d of %s for TFTP: %w", address.Port(), address.Addr(), err)
	}
	return &Server{o: o, conn: conn.(*net.UDPConn), clients: map[netip.AddrPort]*sender{}}, nil
}

// Address is where the server listens.
func (s *Server) Address() netip.AddrPort { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Close closes the port.
func (s *Server) Close() { s.conn.Close() }

// Serve answers until the context ends, and returns when the last transfer has.
func (s *Server) Serve(ctx context.Context) error {
	defer s.all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, s.Close)()
	buf := make([]byte, maxRequest+1)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the TFTP port: %w", err)
		}
		s.begin(ctx, buf[:n], from)
	}
}

// begin starts a transfer, or says why not.
func (s *Server) begin(ctx context.Context, packet []byte, from netip.AddrPort) {
	r, err := parse(packet)
	if err != nil {
		var refusal *refusal
		if errors.As(err, &refusal) {
			_, _ = s.conn.WriteToUDPAddrPort(refusal.packet(), from)
		}
		return
	}
	data, ok := s.o.Files[r.name]
	if !ok {
		_, _ = s.conn.WriteToUDPAddrPort((&refusal{codeNotFound, "no such file"}).packet(), from)
		s.report(from, r.name, os.ErrNotExist)
		return
	}
	t := s.enter(from, data)
	if t == nil {
		return
	}
	s.all.Go(func() {
		defer s.leave(from)
		if err := s.transfer(ctx, from, r, t); !errors.Is(err, errAskedSize) {
			s.report(from, r.name, err)
		}
	})
}

func (s *Server) report(client netip.AddrPort, name string, err error) {
	if s.o.Report != nil {
		s.o.Report(client, name, err)
	}
}

// enter counts a client in and returns its transfer. It returns nil for one that is served already; when that asks
// again, since it has not heard the first packet, it is sent it once more.
func (s *Server) enter(from netip.AddrPort, data []byte) *sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.clients[from]; t != nil {
		t.repeat()
		return nil
	}
	same := 0
	for c := range s.clients {
		if c.Addr() == from.Addr() {
			same++
		}
	}
	if same >= maxPerClient || len(s.clients) >= maxTransfers {
		return nil
	}
	t := &sender{data: data, block: 512, window: 1, timeout: s.o.Timeout, in: make([]byte, 516)}
	s.clients[from] = t
	return t
}

func (s *Server) leave(from netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, from)
}

// transfer sends one file from a port of its own (RFC 1350, section 4).
func (s *Server) transfer(ctx context.Context, to netip.AddrPort, r *request, t *sender) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.Address().Addr(), 0)), net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	t.conn = conn
	if err := t.run(r); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// errAskedSize is the end of a transfer that a client began for the size of the file alone, as UEFI firmware does.
var errAskedSize = errors.New("the client asked for the size alone")

// sender is one transfer.
type sender struct {
	conn          *net.UDPConn
	data          []byte
	block, window int
	timeout       time.Duration
	in            []byte

	// first is what the client has not answered yet; nil before it was sent, and once it has.
	mu    sync.Mutex
	first []byte
}

// repeat sends the first packet once more, while the client has not answered it.
func (t *sender) repeat() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first != nil {
		_ = t.write(t.first) // Who does not hear it asks again.
	}
}

// begin sends the first packet and waits for the answer to it, which says that the client is there and wants this. It
// is sent again only when the client asks again.
func (t *sender) begin(packet []byte, have, want int) (int, error) {
	t.mu.Lock()
	t.first = packet
	err := t.write(packet)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.first = nil
	}()
	if err != nil {
		return 0, err
	}
	patience := retries * t.timeout
	got, err := t.acknowledged(time.Now().Add(patience), have, want)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, fmt.Errorf("the client has not answered within %s", patience)
	}
	return got, err
}

func (t *sender) run(r *request) error {
	// A file whose length is a multiple of the block ends with an empty block; the block is one of the options.
	done := 0
	if answer := t.negotiate(r); answer != nil {
		if _, err := t.begin(answer, -1, 0); err != nil {
			var said *clientError
			if errors.As(err, &said) && said.code == codeOptions {
				return errAskedSize
			}
			return fmt.Errorf("options: %w", err)
		}
	} else {
		acked, err := t.begin(t.packet(0), 0, 1)
		if err != nil {
			return fmt.Errorf("block 1 of %d: %w", len(t.data)/t.block+1, err)
		}
		done = acked
	}
	blocks := len(t.data)/t.block + 1
	for done < blocks {
		// A client that missed a block acknowledges the one before it, and counts a whole window from there (RFC 7440, section 4).
		n := min(t.window, blocks-done)
		acked, err := t.await(func() error { return t.sendBlocks(done, n) }, done, done+n)
		if err != nil {
			return fmt.Errorf("block %d of %d: %w", done+1, blocks, err)
		}
		done = acked
	}
	return nil
}

func (t *sender) sendBlocks(from, n int) error {
	for i := range n {
		if err := t.write(t.packet(from + i)); err != nil {
			return err
		}
	}
	return nil
}

// packet is block i, from 0; it is number i+1 on the wire, modulo 65536.
func (t *sender) packet(i int) []byte {
	from, to := i*t.block, min((i+1)*t.block, len(t.data))
	out := make([]byte, 4, 4+t.block)
	binary.BigEndian.PutUint16(out, opData)
	binary.BigEndian.PutUint16(out[2:], uint16(i+1))
	return append(out, t.data[from:to]...)
}

func (t *sender) write(p []byte) error {
	if err := t.conn.SetWriteDeadline(time.Now().Add(t.timeout)); err != nil {
		return err
	}
	_, err := t.conn.Write(p)
	return err
}

// await sends, and waits for the acknowledgement of any block after have, up to want, which it returns. It counts blocks from the
// beginning of the file, where those on the wire are modulo 65536. In a window of several blocks a client says by the old
// acknowledgement that it missed the next one. With single blocks an old one is ignored: an answer to each would double every
// block from there on (RFC 1123, section 4.2.3.1).
func (t *sender) await(send func() error, have, want int) (int, error) {
	for range retries {
		if err := send(); err != nil {
			return 0, err
		}
		got, err := t.acknowledged(time.Now().Add(t.timeout), have, want)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return got, err
		}
	}
	return 0, fmt.Errorf("the client has not gone on after %d attempts", retries)
}

// acknowledged waits for the acknowledgement of any block after have, up to want, which it returns; the error is
// os.ErrDeadlineExceeded when none comes.
func (t *sender) acknowledged(deadline time.Time, have, want int) (int, error) {
	for {
		n, err := t.read(deadline)
		if err != nil {
			return 0, err
		}
		// How far the block is behind the one that is wanted.
		behind := int(uint16(want) - n)
		switch got := want - behind; {
		case got > have:
			return got, nil
		case got == have && t.window > 1:
			// There may be one for each block of the window that came after the gap; they ask for the same.
			if soon := time.Now().Add(gather); soon.Before(deadline) {
				deadline = soon
			}
		}
	}
}

// read is the number of the next acknowledged block.
func (t *sender) read(deadline time.Time) (uint16, error) {
	if err := t.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	for {
		n, err := t.conn.Read(t.in)
		if err != nil {
			return 0, err
		}
		switch block, err := parseAnswer(t.in[:n]); {
		case errors.Is(err, errNoAnswer):
		case err != nil:
			return 0, err
		default:
			return block, nil
		}
	}
}
