package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"spore/builder/rehearsal"
	"spore/builder/rehearsal/door"
	"spore/builder/vm"
	"spore/builder/vm/lan"
	"spore/cluster/facts"
)

// session is the machines of one command.
type session struct {
	flags    flags
	medium   medium
	reporter *reporter
	folder   rehearsal.Folder
	machines []*machine
	// cluster and nodes are what the image says.
	cluster *facts.Cluster
	nodes   []facts.Node
	// asker is that of --until, nil where there are no keys to ask with, and started when the first machine was.
	asker   *asker
	started time.Time
}

// machine is one of them.
type machine struct {
	plan  rehearsal.Machine
	state *rehearsal.State
	// bundle says where its bundle is from, or why it has none.
	bundle      string
	credentials map[string][]byte
	*vm.Machine
}

// hold takes the folders of the machines, so that nobody else starts them.
func (s *session) hold(plans []rehearsal.Machine) error {
	for _, p := range plans {
		state, err := s.folder.Hold(p.Node.Name)
		if err != nil {
			return err
		}
		s.machines = append(s.machines, &machine{plan: p, state: state})
	}
	return nil
}

// close ends what still runs and lets go of everything.
func (s *session) close() {
	for _, m := range s.machines {
		if m.Machine != nil {
			m.Kill()
		}
		m.state.Close()
	}
}

// run starts the machines and shows them until the last one has ended, or the user has enough.
func (s *session) run(ctx context.Context) error {
	accel, err := vm.DetectAccel(ctx)
	if err != nil {
		return err
	}
	s.warnOfMemory()
	s.warnOfCPUs(accel)
	// The network outlives the user's patience by as long as machines need to end.
	network, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	if err := lan.Join(network, s.folder.Network()); err != nil {
		return err
	}
	if err := s.openDoor(network); err != nil {
		return err
	}
	if err := s.medium.serve(network); err != nil {
		return err
	}
	s.started = time.Now()
	for _, m := range s.machines {
		if err := s.start(ctx, m, accel); err != nil {
			return err
		}
	}
	return s.show(ctx)
}

// openDoor opens the way of this host's programs into the network. Machines run as well without it, so that its absence
// is an error only where its address was given.
func (s *session) openDoor(network context.Context) error {
	address, mac, err := rehearsal.Station(s.cluster, s.nodes)
	if err == nil {
		names := rehearsal.NewNames(s.cluster, s.nodes)
		var at string
		at, err = door.Open(network, door.Config{
			Dir: s.folder.Network(), Listen: s.flags.socks, Address: address, MAC: mac, Moved: s.reporter.proxy,
			Lookup: func(host string) []netip.Addr { return names.Lookup(host, s.folder.Leased) },
		})
		if err == nil {
			s.reporter.proxy(at)
			return nil
		}
	}
	if s.flags.socks == "" {
		s.reporter.warn("", "the proxy into the network does not start: "+err.Error())
		return nil
	}
	return err
}

// start starts one machine with what it kept.
func (s *session) start(ctx context.Context, m *machine, accel vm.Accel) error {
	node := m.plan.Node
	if s.flags.remove {
		if err := m.state.Forget(); err != nil {
			return err
		}
	}
	disks, installs, err := s.medium.disks(ctx, m.plan, m.state, s.flags.install)
	if err != nil {
		return fmt.Errorf("%s: %w", node.Name, err)
	}
	if installs != "" {
		m.credentials[installCredential] = []byte(installs)
	}
	nics, words := s.medium.plug(m.plan.NICs)
	words = append(words, s.pace(accel)...)
	c := vm.Config{
		Name: node.Name, Dir: m.state.Dir, Accel: accel, Memory: m.plan.Memory, CPUs: s.cpus(accel), Reboots: true,
		Disks: disks, NICs: nics, Network: s.folder.Network(),
		SMBIOS: vm.SMBIOS{Serial: node.Serial, UUID: node.UUID, Credentials: m.credentials, KernelArguments: words},
	}
	// Where code is emulated, a machine can wait for its turn for longer than its watchdog does.
	c.Watchdog = !accel.Emulates()
	if s.flags.tpm {
		c.TPM = filepath.Join(m.state.Dir, "tpm")
	}
	if m.Machine, err = vm.Start(ctx, c); err != nil {
		return err
	}
	record := rehearsal.Record{Node: node.Name, PID: m.PID()}
	i := 0
	for _, n := range c.NICs {
		for _, f := range n.Forwards {
			record.Forwards = append(record.Forwards, rehearsal.Forward{Host: m.Ports[i], Guest: f.Guest, Protocol: f.Protocol})
			i++
		}
	}
	if err := m.state.Record(record); err != nil {
		return fmt.Errorf("%s: %w", node.Name, err)
	}
	s.reporter.started(m, accel.Name, record.Forwards)
	return nil
}

// emulated is by how much machines count as slower than others where their code is emulated: times of leases and
// heartbeats that are meant for a processor would end while the machine that holds them waits for its turn.
const emulated = 5

// pace is what all machines are told of how slow they are, and then what the user tells them, which wins.
func (s *session) pace(accel vm.Accel) []string {
	if !accel.Emulates() {
		return s.flags.words
	}
	return append([]string{fmt.Sprintf("spore.slow=%d", emulated)}, s.flags.words...)
}

// cpus is the number of processors of each machine. Where code is emulated, several machines cost the least with one
// each.
func (s *session) cpus(accel vm.Accel) int {
	switch {
	case s.flags.cpus > 0:
		return s.flags.cpus
	case len(s.machines) > 1, accel.OneCPU:
		return 1
	}
	return 2
}

// warnOfCPUs says what may become of more processors than the machines would have by themselves.
func (s *session) warnOfCPUs(accel vm.Accel) {
	if accel.OneCPU && s.flags.cpus > 1 {
		s.reporter.warn("", "QEMU before 8.1 emulates several processors so that the kernel panics now and then (int3): leave --cpus out, or start again")
	}
}

// warnOfMemory compares what the machines are given with what this host has free.
func (s *session) warnOfMemory() {
	sum := 0
	for _, m := range s.machines {
		sum += m.plan.Memory
	}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if free, ok := available(string(data)); ok && sum > free {
			s.reporter.warn("", fmt.Sprintf("the machines are given %d MiB, and this host has %d free: start fewer, or give less with --memory NODE=MIB", sum, free))
		}
	}
}

// available is MemAvailable of /proc/meminfo (proc(5)) in MiB.
func available(meminfo string) (int, bool) {
	for line := range strings.Lines(meminfo) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			kib, err := strconv.Atoi(f[1])
			return kib >> 10, err == nil
		}
	}
	return 0, false
}

// show tells of all machines until they have ended, or until they are ready where that is asked for. One console is
// shown, and gets what is typed.
func (s *session) show(ctx context.Context) error {
	ctx, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	shown := s.flags.console
	if len(s.machines) == 1 && !s.flags.json && s.flags.until == "" {
		shown = s.machines[0].plan.Node.Name
	}
	errs := make([]error, len(s.machines))
	var all sync.WaitGroup
	for i, m := range s.machines {
		node := m.plan.Node.Name
		stop, err := serve(s.folder, node, m.Machine)
		if err != nil {
			return fmt.Errorf("console of %s: %w", node, err)
		}
		all.Go(func() {
			defer stop()
			if node != shown {
				s.reporter.watch(ctx, node, m.Console)
			} else {
				errs[i] = s.follow(ctx, m.Machine)
			}
			if ctx.Err() != nil {
				errs[i] = errors.Join(errs[i], m.Quit())
			} else {
				errs[i] = errors.Join(errs[i], m.Wait(ctx))
				if s.flags.until != "" {
					enough(fmt.Errorf("the machine %s has ended", node))
				}
			}
			errs[i] = errors.Join(errs[i], m.state.Ended(), m.state.Close())
			s.reporter.ended(node, len(s.machines) > 1)
		})
	}
	var verdict error
	if s.flags.until != "" {
		for _, m := range s.machines {
			go watchPanic(ctx, m, enough)
		}
		verdict = s.awaitReady(ctx)
		if verdict == nil && s.flags.test {
			verdict = s.runTests(ctx)
		}
		enough(nil)
	}
	all.Wait()
	return errors.Join(append(errs, verdict)...)
}

// follow shows a console, and types on it what is typed here, until the machine ends or the user has enough.
func (s *session) follow(ctx context.Context, m *vm.Machine) error {
	restore, err := typeThere(os.Stdin, m.Type)
	if err != nil {
		return err
	}
	defer restore()
	// Lines of other machines come between those of this one, and would be in the midst of a page.
	err = look(ctx, m.Console, os.Stdin, s.reporter.w, len(s.machines) == 1)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// look shows a console, and its pages where keys are typed at a terminal that shows them.
func look(ctx context.Context, c *vm.Console, in *os.File, w io.Writer, pages bool) error {
	out, ok := w.(*os.File)
	if !ok || !pages || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return c.Follow(ctx, w)
	}
	return c.FollowPages(ctx, out, func() bool {
		columns, lines, err := term.GetSize(int(out.Fd()))
		return err == nil && columns >= vm.PageColumns && lines >= vm.PageLines
	})
}

// serve lets other processes show the console and type on it.
func serve(folder rehearsal.Folder, node string, m *vm.Machine) (stop func(), err error) {
	path, done, err := folder.Console(node)
	if err != nil {
		return nil, err
	}
	// What a machine that was cut off left there is nobody's.
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				context.AfterFunc(ctx, func() { conn.Close() })
				go typed(conn, m)
				// Who has gone away is told nothing.
				_ = m.Console.FollowPages(ctx, conn, nil)
			}()
		}
	}()
	return func() {
		cancel()
		l.Close()
		_ = done()
	}, nil
}

// typed types what comes from elsewhere.
func typed(r io.Reader, m *vm.Machine) {
	for keys := make([]byte, 256); ; {
		n, err := r.Read(keys)
		if err != nil || m.Type(string(keys[:n])) != nil {
			return
		}
	}
}

// dial connects to the console of a machine of another process.
func dial(folder rehearsal.Folder, node string) (net.Conn, error) {
	path, done, err := folder.Console(node)
	if err == nil {
		defer done()
		var conn net.Conn
		if conn, err = net.Dial("unix", path); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("%s does not run (%w); start it with --node %s", node, err, node)
}

// follow shows a console of another process until its machine ends or the user has enough.
func follow(ctx context.Context, w io.Writer, conn net.Conn) error {
	defer conn.Close()
	restore, err := typeThere(os.Stdin, func(keys string) error {
		_, err := io.WriteString(conn, keys)
		return err
	})
	if err != nil {
		return err
	}
	defer restore()
	c := vm.Collect(conn, io.Discard, func() (wall, cpu time.Duration) { return 0, 0 })
	err = look(ctx, c, os.Stdin, w, true)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
