package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const loopback = "127.0.0.1:0"

// content is the same for the same size.
func content(size int) []byte {
	out := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(out)
	return out
}

// serve runs a server for the time of a test and keeps what it reports.
func serve(t *testing.T, files map[string][]byte, timeout time.Duration) (*Server, func() []error) {
	t.Helper()
	var mu sync.Mutex
	var ended []error
	s, err := Listen(t.Context(), netip.MustParseAddrPort(loopback), Options{Files: files, Timeout: timeout, Report: func(_ netip.AddrPort, _ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, err)
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s, func() []error {
		mu.Lock()
		defer mu.Unlock()
		return append([]error(nil), ended...)
	}
}

func readRequest(texts ...string) []byte {
	return append([]byte{0, opRead}, strings.Join(texts, "\x00")+"\x00"...)
}

// machine is a client of its own, which loses, repeats and delays as it is told.
type machine struct {
	t     *testing.T
	conn  *net.UDPConn
	peer  *net.UDPAddr
	block int
	// drop tells whether the machine does not see this packet.
	drop func(packet []byte) bool
	// repeat is how often each acknowledgement is sent.
	repeat  int
	packet  []byte
	request []byte
}

func newMachine(t *testing.T, s *Server, request []byte) *machine {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = conn.WriteToUDPAddrPort(request, s.Address())
	require.NoError(t, err)
	return &machine{t: t, conn: conn, block: 512, repeat: 1, drop: func([]byte) bool { return false }, packet: make([]byte, 65536), request: request}
}

// next is the next packet that the machine sees; nil when it waited in vain.
func (m *machine) next(wait time.Duration) []byte {
	for {
		require.NoError(m.t, m.conn.SetReadDeadline(time.Now().Add(wait)))
		n, from, err := m.conn.ReadFromUDP(m.packet)
		if err != nil {
			return nil
		}
		m.peer = from
		if !m.drop(m.packet[:n]) {
			return m.packet[:n]
		}
	}
}

func (m *machine) ack(block uint16) {
	p := binary.BigEndian.AppendUint16([]byte{0, opAck}, block)
	for range m.repeat {
		_, err := m.conn.WriteToUDP(p, m.peer)
		require.NoError(m.t, err)
	}
}

// load takes a file in windows, as RFC 7440 has it, from its first data block on. It returns how many packets it saw.
func (m *machine) load(window int) (data []byte, seen int) {
	last, inWindow := uint16(0), 0
	for silent := 0; ; {
		p := m.next(300 * time.Millisecond)
		if p == nil {
			if silent++; silent == 20 {
				m.t.Fatalf("the server is silent after %d bytes", len(data))
			}
			if m.peer != nil {
				m.ack(last)
			}
			inWindow = 0
			continue
		}
		silent = 0
		seen++
		require.EqualValues(m.t, opData, binary.BigEndian.Uint16(p), "%q", p)
		if binary.BigEndian.Uint16(p[2:]) != last+1 {
			// Something is missing, or came before.
			if inWindow > 0 || window > 1 {
				m.ack(last)
			}
			inWindow = 0
			continue
		}
		last++
		inWindow++
		data = append(data, p[4:]...)
		if final := len(p)-4 < m.block; final || inWindow == window {
			m.ack(last)
			inWindow = 0
			if final {
				return data, seen
			}
		}
	}
}

func TestFilesOfEverySizeComeThrough(t *testing.T) {
	files := map[string][]byte{}
	for _, size := range []int{0, 1, 511, 512, 513, 1024, 74213} {
		files[strconv.Itoa(size)] = content(size)
	}
	s, ended := serve(t, files, time.Second)
	for name, want := range files {
		got, _ := newMachine(t, s, readRequest(name, "octet")).load(1)
		require.Equal(t, len(want), len(got))
		require.True(t, bytes.Equal(want, got), name)
	}
	require.Eventually(t, func() bool { return len(ended()) == len(files) }, 5*time.Second, time.Millisecond)
	for _, err := range ended() {
		require.NoError(t, err)
	}
}

func TestOptionsAreAgreedOn(t *testing.T) {
	file := content(5000)
	s, _ := serve(t, map[string][]byte{"f": file}, time.Second)
	for _, tt := range []struct {
		name   string
		asked  []string
		answer string
		block  int
		window int
	}{
		{"size, block and window", []string{"tsize", "0", "blksize", "1432", "windowsize", "4"}, "tsize\x005000\x00blksize\x001432\x00windowsize\x004\x00", 1432, 4},
		{"a block that does not fit into a frame is made smaller", []string{"blksize", "65464"}, "blksize\x001468\x00", 1468, 1},
		{"a window has a bound", []string{"WindowSize", "65535"}, "windowsize\x0064\x00", 512, 64},
		{"a time that the client wants", []string{"timeout", "2"}, "timeout\x002\x00", 512, 1},
		{"what cannot be is left out", []string{"blksize", "7", "windowsize", "0", "timeout", "255", "tsize", "x", "unknown", "1", "blksize", "1000", "blksize", "900"}, "blksize\x001000\x00", 1000, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, s, readRequest(append([]string{"/f", "OCTET"}, tt.asked...)...))
			p := m.next(2 * time.Second)
			require.NotNil(t, p)
			require.EqualValues(t, opOAck, binary.BigEndian.Uint16(p))
			require.Equal(t, tt.answer, string(p[2:]))
			m.block = tt.block
			m.ack(0)
			got, _ := m.load(tt.window)
			require.True(t, bytes.Equal(file, got))
		})
	}
	t.Run("options that cannot be are answered by the first block", func(t *testing.T) {
		got, _ := newMachine(t, s, readRequest("f", "octet", "blksize", "1")).load(1)
		require.True(t, bytes.Equal(file, got))
	})
}

func TestWhatIsLostIsSentAgain(t *testing.T) {
	file := content(60_000)
	s, _ := serve(t, map[string][]byte{"f": file}, 100*time.Millisecond)
	for _, window := range []int{1, 8} {
		m := newMachine(t, s, readRequest("f", "octet", "windowsize", strconv.Itoa(window)))
		r := rand.New(rand.NewPCG(7, uint64(window)))
		m.drop = func([]byte) bool { return r.IntN(10) == 0 }
		for p := m.next(200 * time.Millisecond); p == nil; p = m.next(200 * time.Millisecond) {
			_, err := m.conn.WriteToUDPAddrPort(m.request, s.Address())
			require.NoError(t, err)
		}
		m.ack(0)
		got, _ := m.load(window)
		require.True(t, bytes.Equal(file, got), "window %d", window)
	}
}

func TestRepeatedAcknowledgementsDoNotDoubleTheBlocks(t *testing.T) {
	file := content(100 * 512)
	s, _ := serve(t, map[string][]byte{"f": file}, time.Second)
	m := newMachine(t, s, readRequest("f", "octet"))
	m.repeat = 3
	got, seen := m.load(1)
	require.True(t, bytes.Equal(file, got))
	require.LessOrEqual(t, seen, 105, "each of the 101 blocks once")
}

func TestBlockNumbersWrapAround(t *testing.T) {
	file := content(70_000 * 8)
	s, _ := serve(t, map[string][]byte{"f": file}, time.Second)
	m := newMachine(t, s, readRequest("f", "octet", "blksize", "8", "windowsize", "64"))
	require.NotNil(t, m.next(time.Second))
	m.block = 8
	m.ack(0)
	got, _ := m.load(64)
	require.True(t, bytes.Equal(file, got))
}

func TestRefusals(t *testing.T) {
	s, ended := serve(t, map[string][]byte{"f": content(10)}, time.Second)
	for _, tt := range []struct {
		name   string
		packet []byte
		code   uint16
		text   string
	}{
		{"a file that is not there", readRequest("../etc/passwd", "octet"), codeNotFound, "no such file"},
		{"writing", append([]byte{0, opWrite}, "f\x00octet\x00"...), codeAccess, "nothing can be written"},
		{"another mode", readRequest("f", "netascii"), codeIllegal, "octet"},
		{"a request without an end", []byte("\x00\x01f\x00octet"), codeIllegal, "cut short"},
		{"a request without a mode", []byte("\x00\x01f\x00"), codeIllegal, "cut short"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newMachine(t, s, tt.packet).next(2 * time.Second)
			require.NotNil(t, p)
			require.EqualValues(t, opError, binary.BigEndian.Uint16(p))
			require.Equal(t, tt.code, binary.BigEndian.Uint16(p[2:]))
			require.Contains(t, string(p[4:]), tt.text)
		})
	}
	for _, packet := range [][]byte{{}, {0}, {0, opAck, 0, 1}, {0, 99, 'f', 0}, make([]byte, maxRequest+1)} {
		require.Nil(t, newMachine(t, s, packet).next(50*time.Millisecond), "no answer to %v", packet)
	}
	require.ErrorIs(t, ended()[0], os.ErrNotExist)
}

func TestAClientThatIsGoneIsGivenUp(t *testing.T) {
	s, ended := serve(t, map[string][]byte{"f": content(5000)}, 10*time.Millisecond)
	m := newMachine(t, s, readRequest("f", "octet"))
	require.NotNil(t, m.next(time.Second))
	require.Eventually(t, func() bool { return len(ended()) == 1 }, 5*time.Second, time.Millisecond)
	require.ErrorContains(t, ended()[0], "block 1 of 10: the client has not answered within 60ms")

	m = newMachine(t, s, readRequest("f", "octet"))
	require.NotNil(t, m.next(time.Second))
	m.ack(1)
	require.Eventually(t, func() bool { return len(ended()) == 2 }, 5*time.Second, time.Millisecond)
	require.ErrorContains(t, ended()[1], "block 2 of 10: the client has not gone on after 6 attempts")

	m = newMachine(t, s, readRequest("f", "octet", "tsize", "0"))
	require.NotNil(t, m.next(time.Second))
	_, err := m.conn.WriteToUDP(append([]byte{0, opError, 0, 3}, "no room\x00"...), m.peer)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(ended()) == 3 }, 5*time.Second, time.Millisecond)
	require.ErrorContains(t, ended()[2], `options: the client says: "no room" (error 3)`)
}

// The source address of a request can be anybody's. What he is sent for it is one packet, however large the file and
// the window are, so that this server is no help to who floods others.
func TestAnAddressThatHasNotAnsweredGetsOnePacketForEachRequest(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request []byte
		opcode  uint16
	}{
		{"without options", readRequest("f", "octet"), opData},
		{"with options", readRequest("f", "octet", "blksize", "1468", "windowsize", "64"), opOAck},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, ended := serve(t, map[string][]byte{"f": content(100_000)}, 200*time.Millisecond)
			m := newMachine(t, s, tt.request)
			silent := func() {
				p := m.next(100 * time.Millisecond)
				require.Nil(t, p, "a packet that nobody asked for")
			}
			first := bytes.Clone(m.next(time.Second))
			require.Equal(t, tt.opcode, binary.BigEndian.Uint16(first))
			require.LessOrEqual(t, len(first), 4+512)
			silent()
			_, err := m.conn.WriteToUDPAddrPort(tt.request, s.Address())
			require.NoError(t, err)
			require.Equal(t, first, m.next(time.Second), "a machine that lost the first packet asks again")
			silent()
			require.Eventually(t, func() bool { return len(ended()) == 1 }, 5*time.Second, time.Millisecond)
			require.ErrorContains(t, ended()[0], "the client has not answered")
			silent()
		})
	}
	t.Run("and the whole file once it has answered", func(t *testing.T) {
		file := content(50_000)
		s, ended := serve(t, map[string][]byte{"f": file}, 40*time.Millisecond)
		request := readRequest("f", "octet", "windowsize", "8")
		m := newMachine(t, s, request)
		require.NotNil(t, m.next(time.Second))
		m.ack(0)
		require.EqualValues(t, opData, binary.BigEndian.Uint16(m.next(time.Second)))
		// A request that was delayed on the way says nothing any more.
		_, err := m.conn.WriteToUDPAddrPort(request, s.Address())
		require.NoError(t, err)
		got, _ := m.load(8)
		require.True(t, bytes.Equal(file, got))
		require.Eventually(t, func() bool { return len(ended()) == 1 }, 5*time.Second, time.Millisecond)
		require.NoError(t, ended()[0])
	})
}

func TestAQuestionForTheSizeIsNoTransferThatFailed(t *testing.T) {
	s, ended := serve(t, map[string][]byte{"f": content(5000)}, time.Second)
	m := newMachine(t, s, readRequest("f", "octet", "tsize", "0"))
	require.Contains(t, string(m.next(time.Second)), "tsize\x005000\x00")
	_, err := m.conn.WriteToUDP(append([]byte{0, opError, 0, codeOptions}, "User aborted the transfer\x00"...), m.peer)
	require.NoError(t, err)
	newMachine(t, s, readRequest("g", "octet"))
	require.Eventually(t, func() bool { return len(ended()) == 1 }, 5*time.Second, time.Millisecond)
	require.ErrorIs(t, ended()[0], os.ErrNotExist, "only the file that is not there is told")
}

func TestOneMachineDoesNotTakeAllTransfers(t *testing.T) {
	s, _ := serve(t, map[string][]byte{"f": content(5000)}, time.Second)
	heard := 0
	for i := range maxPerClient + 4 {
		m := newMachine(t, s, readRequest("f", "octet"))
		patience := 200 * time.Millisecond
		if i < maxPerClient { // It is answered, on a busy machine later.
			patience = 10 * time.Second
		}
		if m.next(patience) != nil {
			heard++
		}
	}
	require.Equal(t, maxPerClient, heard)
}

// A second opinion.
func TestCurlLoadsAFile(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	file := content(74213)
	s, _ := serve(t, map[string][]byte{"undionly.kpxe": file}, time.Second)
	for _, more := range [][]string{nil, {"--tftp-blksize", "1432"}, {"--tftp-no-options"}} {
		out, err := exec.Command("curl", append(more, "-sSf", "-m", "20", "tftp://"+s.Address().String()+"/undionly.kpxe")...).Output()
		require.NoError(t, err, "%v", more)
		require.True(t, bytes.Equal(file, out), "%v", more)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(readRequest("undionly.kpxe", "octet", "tsize", "0", "blksize", "1468", "windowsize", "4"))
	f.Add(readRequest("/a", "OCTET", "timeout", "3"))
	f.Add([]byte("\x00\x02f\x00octet\x00"))
	f.Add(append(readRequest("f", "octet"), make([]byte, 300)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parse(b)
		if err != nil {
			return
		}
		s := &sender{data: make([]byte, 1000), block: 512, window: 1, timeout: time.Second}
		answer := s.negotiate(r)
		require.LessOrEqual(t, len(answer), maxRequest)
		require.True(t, s.block >= 8 && s.block <= maxBlock && s.window >= 1 && s.window <= maxWindow && s.timeout >= time.Second && s.timeout <= 10*time.Second)
		require.LessOrEqual(t, len(s.packet(0)), maxBlock+4)
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte{0, opAck, 0, 1})
	f.Add(append([]byte{0, opError, 0, 8}, "no\x00"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := parseAnswer(b); err != nil {
			require.LessOrEqual(t, len(err.Error()), 600)
		}
	})
}
