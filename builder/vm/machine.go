package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startAttempts is how often a start is tried again when another program took a forwarded port in between.
	startAttempts = 3
	// endTimeout is how long QEMU may take to end by itself.
	endTimeout = 10 * time.Second
	// clockTick is the unit of times in /proc/PID/stat, always 100 a second on Linux.
	clockTick = 10 * time.Millisecond
)

// Machine is a running machine.
type Machine struct {
	Config  Config
	Console *Console
	// Ports are those on the host's loopback, one for each Forward of each NIC, in order.
	Ports []int

	cmd     *exec.Cmd
	keys    io.WriteCloser
	started time.Time
	qmp     *qmp
	tpm     *tpm
	dir     string
	stderr  bytes.Buffer
	done    chan struct{}
	waitErr error
	stop    sync.Once
}

// Start runs a machine. The caller must Kill or Quit it.
func Start(ctx context.Context, c Config) (*Machine, error) {
	for attempt := 1; ; attempt++ {
		m, err := start(ctx, c)
		if err == nil {
			return m, nil
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "host forwarding rule") {
			return nil, fmt.Errorf("machine %s: %w", c.Name, err)
		}
	}
}

func start(ctx context.Context, c Config) (*Machine, error) {
	for _, d := range c.Disks {
		if d.WriteLog != "" {
			if err := os.WriteFile(d.WriteLog, nil, 0o600); err != nil {
				return nil, err
			}
		}
	}
	ports, err := freePorts(c.NICs)
	if err != nil {
		return nil, err
	}
	// Of its own, because the path of a socket may have 107 characters only (unix(7)).
	dir, err := os.MkdirTemp("", "spore-vm-*")
	if err != nil {
		return nil, err
	}
	m := &Machine{Config: c, Console: newConsole(), Ports: ports, dir: dir, done: make(chan struct{})}
	s := scratch(dir)
	if err := m.run(s); err != nil {
		m.tpm.stop()
		os.RemoveAll(dir)
		return nil, err
	}
	if m.qmp, err = m.connect(ctx, s.qmp()); err != nil {
		m.Kill()
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(m.stderr.String()+"\n"+m.tpm.said()))
	}
	if c.hasDebugger() {
		events, err := m.connect(ctx, s.events())
		if err != nil {
			m.Kill()
			return nil, err
		}
		go watchResets(events, s.debugger())
	}
	// The monitor greets when the machine is made, so all is read.
	if err := s.forget(); err != nil {
		m.Kill()
		return nil, err
	}
	return m, nil
}

// run starts QEMU, the TPM before it, and the reader of its console.
func (m *Machine) run(s scratch) error {
	args, err := m.Config.commandLine(s, m.Ports)
	if err != nil {
		return err
	}
	if m.Config.TPM != "" {
		if m.tpm, err = startTPM(m.Config.TPM, s.tpm()); err != nil {
			return err
		}
	}
	raw, err := os.OpenFile(filepath.Join(m.Config.Dir, m.Config.Name+".console"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	m.cmd = command(context.Background(), args...)
	m.cmd.Stderr = &m.stderr
	// QEMU ends with the test program, however that ends.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if m.Config.Network != "" {
		network, err := os.Open(m.Config.Network)
		if err != nil {
			raw.Close()
			return fmt.Errorf("network: %w", err)
		}
		defer network.Close()
		m.cmd.ExtraFiles = []*os.File{network}
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		raw.Close()
		return err
	}
	if m.keys, err = m.cmd.StdinPipe(); err != nil {
		raw.Close()
		return err
	}
	m.started = time.Now()
	begin := m.cmd.Start
	if m.Config.wantsSmallPages() {
		begin = func() error { return startWithSmallPages(m.cmd) }
	}
	if err := begin(); err != nil {
		raw.Close()
		return fmt.Errorf("%w; run make deps", err)
	}
	go func() {
		m.Console.read(out, raw, func() (time.Duration, time.Duration) { return time.Since(m.started), m.CPU() })
		m.waitErr = m.cmd.Wait()
		m.tpm.stop()
		raw.Close()
		os.RemoveAll(m.dir)
		close(m.done)
	}()
	return nil
}

// connect waits for a monitor's socket.
func (m *Machine) connect(ctx context.Context, socket string) (*qmp, error) {
	deadline := time.Now().Add(endTimeout)
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return newQMP(conn)
		}
		select {
		case <-m.done:
			return nil, errors.New("QEMU ended at once")
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("connect to the monitor: %w", err)
		}
	}
}

// freePorts asks the kernel for ports of the loopback. It keeps all of them until it has the last, since the kernel
// gives a port that was closed to the next who asks.
func freePorts(nics []NIC) ([]int, error) {
	var ports []int
	for _, n := range nics {
		for _, f := range n.Forwards {
			held, port, err := holdPort(f.Protocol)
			if err != nil {
				return nil, err
			}
			defer held.Close()
			ports = append(ports, port)
		}
	}
	return ports, nil
}

func holdPort(protocol string) (io.Closer, int, error) {
	switch protocol {
	case "tcp":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, 0, err
		}
		return l, l.Addr().(*net.TCPAddr).Port, nil
	case "udp":
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, 0, err
		}
		return c, c.LocalAddr().(*net.UDPAddr).Port, nil
	}
	return nil, 0, fmt.Errorf("forward: protocol is %q, want tcp or udp", protocol)
}

// Address is the host's end of a forward by the guest's protocol and end, such as "tcp", "10.77.0.11:8883".
func (m *Machine) Address(protocol, guest string) (string, error) {
	i := 0
	for _, n := range m.Config.NICs {
		for _, f := range n.Forwards {
			if f.Protocol == protocol && f.Guest == guest {
				return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Ports[i])), nil
			}
			i++
		}
	}
	return "", fmt.Errorf("machine %s: %s %s is not forwarded", m.Config.Name, protocol, guest)
}

// CPU is what QEMU has used so far.
func (m *Machine) CPU() time.Duration {
	select {
	case <-m.done:
		return m.cmd.ProcessState.UserTime() + m.cmd.ProcessState.SystemTime()
	default:
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return statCPU(string(data))
}

// statCPU is utime + stime of /proc/PID/stat (proc(5)); the name before them may hold spaces and parentheses.
func statCPU(s string) time.Duration {
	f := strings.Fields(s[strings.LastIndex(s, ")")+1:])
	if len(f) < 13 {
		return 0
	}
	var ticks int64
	for _, v := range f[11:13] {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// Monitor runs a command of QEMU's monitor protocol.
func (m *Machine) Monitor(command string, args, result any) error {
	return m.qmp.run(command, args, result)
}

// PID is QEMU's process.
func (m *Machine) PID() int { return m.cmd.Process.Pid }

// Type types on the serial console. Nobody may be listening.
func (m *Machine) Type(text string) error {
	if _, err := io.WriteString(m.keys, text); err != nil {
		return fmt.Errorf("machine %s: type on the console: %w", m.Config.Name, err)
	}
	return nil
}

// Cable plugs or unplugs the cable of the i-th card.
func (m *Machine) Cable(i int, plugged bool) error {
	return m.Monitor("set_link", map[string]any{"name": fmt.Sprintf("nic%d", i), "up": plugged}, nil)
}

// Freeze stops the guest as a whole, and Thaw lets it go on: its processors and its clocks stand still in between.
func (m *Machine) Freeze() error { return m.Monitor("stop", nil, nil) }

// Thaw is the end of Freeze.
func (m *Machine) Thaw() error { return m.Monitor("cont", nil, nil) }

// Reset is the reset button: nothing is flushed.
func (m *Machine) Reset() error { return m.Monitor("system_reset", nil, nil) }

// PowerButton asks the guest to power down.
func (m *Machine) PowerButton() error { return m.Monitor("system_powerdown", nil, nil) }

// CtrlAltDel presses the three keys; systemd reboots in order on them.
func (m *Machine) CtrlAltDel() error {
	var keys []map[string]string
	for _, k := range []string{"ctrl", "alt", "delete"} {
		keys = append(keys, map[string]string{"type": "qcode", "data": k})
	}
	return m.Monitor("send-key", map[string]any{"keys": keys}, nil)
}

// Wait waits for QEMU to end by itself.
func (m *Machine) Wait(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("machine %s: waiting for its end: %w; the console ends with:\n%s", m.Config.Name, context.Cause(ctx), m.Console.Tail())
	}
}

// Quit ends QEMU in order, so that its files are whole: what the guest wrote last is in the image and in the write log.
// It is a power cut for the guest.
func (m *Machine) Quit() error {
	err := m.Monitor("quit", nil, nil)
	select {
	case <-m.done:
		return nil
	case <-time.After(endTimeout):
		m.Kill()
		return fmt.Errorf("machine %s: QEMU does not end: %w", m.Config.Name, err)
	}
}

// Kill ends QEMU at once. It may be called again.
func (m *Machine) Kill() {
	m.stop.Do(func() {
		// An error means that it has ended already.
		_ = m.cmd.Process.Kill()
	})
	<-m.done
}

// Running reports whether QEMU has not ended.
func (m *Machine) Running() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}
