// Package netboot boots machines over the network with the folder that `spore build --format netboot` makes: DHCP, TFTP and
// HTTP in one process, and the enrolment of nodes that have no secrets yet.
//
// The packages below it do the work: dhcp says what to load, tftp and web hand it out, ipxe writes scripts, roster knows the nodes
// and remembers machines. This one opens the ports and tells the operator what happens.
package netboot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"spore/builder/media"
	"spore/builder/netboot/dhcp"
	"spore/builder/netboot/ipxe"
	"spore/builder/netboot/roster"
	"spore/builder/netboot/tftp"
	"spore/builder/netboot/web"
	"spore/pki/attest"
	"spore/pki/enroll"
)

// Ports of the protocols.
const (
	HTTPPort = 80
	TFTPPort = 69
)

// lookAgain is how often the folder is looked at for another build.
const lookAgain = 2 * time.Second

// largeFile is from where on the operator is told that a file was sent, in bytes.
const largeFile = 1 << 20

// Options describe a server.
type Options struct {
	// Dir is the folder.
	Dir string
	// Card is the interface that machines are at, with this machine's address.
	Card Card
	// DHCP is the mode; no DHCP when it is empty. First and Last are the range for machines that are no node, in the mode Full;
	// a default when they are not valid.
	DHCP        dhcp.Mode
	First, Last netip.Addr
	// HTTPPort is the port of HTTP. TFTPPort is that of TFTP, which is off when it is negative. 0 is a free port.
	HTTPPort, TFTPPort int
	// Install holds, by node, the serial number of the disk that it is to be installed on.
	Install map[string]string
	// Answers holds, by node, an answer file, whose disk Install names, too.
	Answers map[string]string
	// Approved are approvals that were kept from another run of a server.
	Approved []enroll.Approval
	// Say tells the operator one line.
	Say func(format string, args ...any)
	Now func() time.Time
}

// Server is one whose ports are open.
type Server struct {
	o       Options
	roster  *roster.Roster
	enroll  *enroll.Server
	web     *web.Server
	tftp    *tftp.Server
	dhcp    *dhcp.Sockets
	leases  *dhcp.Leases
	stamp   string
	base    string
	install struct {
		sync.Mutex
		// done are the nodes that said that they have installed themselves.
		done map[string]bool
	}
}

// Open reads the folder and opens the ports.
func Open(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{o: o}
	s.install.done = map[string]bool{}
	defer func() {
		if err != nil {
			s.Close()
			err = advise(err, o)
		}
	}()
	cluster := filepath.Join(o.Dir, media.NetbootCluster)
	nodes, err := roster.Read(cluster)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; make the folder with `spore build --format netboot`", err)
	}
	if err != nil {
		return nil, err
	}
	s.stamp = stampOf(cluster)
	for name := range o.Install {
		if _, err := nodes.Node(name); err != nil {
			return nil, fmt.Errorf("install: %w", err)
		}
	}
	s.roster = roster.New(nodes, o.Now)
	s.enroll = enroll.NewServer(enroll.ServerOptions{
		Cluster: nodes.Cluster.ID, Now: o.Now, Changed: s.claimed,
		Known: func(node string) bool { _, err := s.roster.Nodes().Node(node); return err == nil },
	})
	for _, a := range o.Approved {
		if err := s.enroll.Approve(a); err != nil {
			o.Say("an approval that was kept is left out: %v", err)
		}
	}
	return s, s.listen(ctx, nodes)
}

// listen opens the ports: HTTP first, since the others lead to it.
func (s *Server) listen(ctx context.Context, nodes *roster.Nodes) (err error) {
	o, own := s.o, s.o.Card.Prefix.Addr()
	w := web.Options{Dir: o.Dir, Roster: s.roster, Enroll: s.enroll, Seen: s.seen, Sent: s.sent, Install: s.toInstall, Installed: s.installed, Answers: s.answers}
	if s.web, err = web.Listen(ctx, netip.AddrPortFrom(own, uint16(o.HTTPPort)), w); err != nil {
		return err
	}
	s.base = s.web.Base()

	boot := dhcp.Boot{Script: s.base + ipxe.Start, UKI: s.base + ipxe.UKI}
	if o.TFTPPort >= 0 {
		loaders, err := readLoaders(o.Dir)
		if err != nil {
			return err
		}
		boot.BIOS, boot.UEFI = loaderFor(loaders, ".kpxe"), loaderFor(loaders, ".efi")
		s.tftp, err = tftp.Listen(ctx, netip.AddrPortFrom(own, uint16(o.TFTPPort)), tftp.Options{Files: loaders, Report: s.transferred})
		if err != nil {
			return err
		}
	}
	if o.DHCP == "" {
		return nil
	}
	d := dhcp.Options{Mode: o.DHCP, Server: own, Boot: boot, Report: s.asked}
	if o.DHCP == dhcp.Full {
		if d.Network, d.Leases, err = network(nodes, o.Card, o.First, o.Last, o.Now); err != nil {
			return err
		}
		s.leases = d.Leases
		if err := s.alone(ctx); err != nil {
			return err
		}
	}
	server, err := dhcp.New(d)
	if err != nil {
		return err
	}
	s.dhcp, err = server.Listen(ctx, o.Card.Name)
	return err
}

// alone makes sure that no other DHCP server is on the network.
func (s *Server) alone(ctx context.Context) error {
	card := s.o.Card.Name
	i, err := net.InterfaceByName(card)
	if err != nil {
		return fmt.Errorf("interface %s: %w", card, err)
	}
	other, err := dhcp.Probe(ctx, card, i.HardwareAddr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		s.o.Say("a DHCP client of this machine uses %s, so other DHCP servers there were not searched; make sure that there is none", card)
		return nil
	case err != nil:
		return err
	case other.IsValid():
		return fmt.Errorf("%s gives out addresses on %s already; use --dhcp proxy beside it, or remove it from this network", other, card)
	}
	return nil
}

// advise says what to do about ports that may not be opened, or are taken.
func advise(err error, o Options) error {
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w\nports below 1024 need a right: run this as root, or give it to the program once with `sudo setcap cap_net_bind_service,cap_net_raw+ep PROGRAM`.\n"+
			"Without it, machines with an iPXE of their own can boot: --dhcp off --tftp-port off --http-port 8080, and http://%s:8080/%s as their script", err, o.Card.Prefix.Addr(), ipxe.Start)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w\nanother program has the port: `ss -lntup` shows which (often dnsmasq, or systemd-networkd's own DHCP server)", err)
	}
	return err
}

// readLoaders reads iPXE's binaries.
func readLoaders(dir string) (map[string][]byte, error) {
	files, err := os.ReadDir(filepath.Join(dir, media.NetbootLoaders))
	if err != nil {
		return nil, fmt.Errorf("%w; make the folder again with `spore build --format netboot`", err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		if out[f.Name()], err = os.ReadFile(filepath.Join(dir, media.NetbootLoaders, f.Name())); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func loaderFor(loaders map[string][]byte, suffix string) string {
	for name := range loaders {
		if strings.HasSuffix(name, suffix) {
			return name
		}
	}
	return ""
}

// Base is the URL of the folder.
func (s *Server) Base() string { return s.base }

// Nodes are those of the image.
func (s *Server) Nodes() *roster.Nodes { return s.roster.Nodes() }

// Close closes what is open.
func (s *Server) Close() {
	if s.web != nil {
		s.web.Close()
	}
	if s.tftp != nil {
		s.tftp.Close()
	}
	if s.dhcp != nil {
		s.dhcp.Close()
	}
}

// Serve works until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.web.Serve(ctx) })
	if s.tftp != nil {
		group.Go(func() error { return s.tftp.Serve(ctx) })
	}
	if s.dhcp != nil {
		group.Go(func() error { return s.dhcp.Serve(ctx) })
	}
	group.Go(func() error { return s.watch(ctx) })
	return group.Wait()
}

// watch takes the nodes of another build when the folder has been exchanged.
func (s *Server) watch(ctx context.Context) error {
	name := filepath.Join(s.o.Dir, media.NetbootCluster)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
		now := stampOf(name)
		if now == "" || now == s.stamp {
			continue
		}
		nodes, err := roster.Read(name)
		if err != nil {
			s.o.Say("the folder was changed and cannot be read: %v", err)
			continue
		}
		if nodes.Cluster.ID != s.roster.Nodes().Cluster.ID {
			return fmt.Errorf("the folder %s has the image of another cluster now, %s; start again", s.o.Dir, nodes.Cluster.Name)
		}
		s.stamp = now
		s.roster.Replace(nodes)
		if s.leases != nil {
			s.leases.SetNodes(addresses(nodes, s.o.Card))
		}
		s.o.Say("another build of the image is there; machines get it from now on")
	}
}

// stampOf tells one file from another that takes its place.
func stampOf(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return ""
	}
	inode := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	return fmt.Sprint(inode, info.Size(), info.ModTime().UnixNano())
}

// asked is told of DHCP.
func (s *Server) asked(e dhcp.Event) {
	said := roster.Machine{MACs: []string{e.MAC.String()}, Did: e.Client}
	if e.Address.IsValid() {
		said.Address = e.Address.String()
	}
	m, fresh := s.roster.Seen(said, e.UUIDs...)
	switch {
	case e.Problem != "":
		s.o.Say("%s, %s: %s", who(m), e.Client, e.Problem)
	case e.Loads != "":
		s.o.Say("%s, %s: is to load %s", who(m), e.Client, e.Loads)
		if fresh && m.Node == "" && e.Client != "iPXE" {
			s.o.Say("  does not match any node by its network card; %s", m.Advice())
		}
	}
}

// seen is told of machines that asked for their script.
func (s *Server) seen(m roster.Machine, fresh bool) {
	switch {
	case m.Node != "":
		s.o.Say("%s: boots (by its %s)", who(m), m.Why)
	case fresh:
		s.o.Say("UNKNOWN MACHINE: MACs %s, serial %s, UUID %s, address %s\n  %s", strings.Join(m.MACs, " "), cmp.Or(m.Serial, "-"), cmp.Or(m.UUID, "-"), cmp.Or(m.Address, "-"), m.Advice())
	}
}

func (s *Server) transferred(client netip.AddrPort, name string, err error) {
	from := s.at(client.Addr().String())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.o.Say("%s: asked for %.80q, which is not there", from, name)
	case err != nil:
		s.o.Say("%s: %s did not get through: %v", from, name, err)
	default:
		s.o.Say("%s: has %s", from, name)
	}
}

func (s *Server) sent(f web.Sent) {
	if f.Bytes < largeFile {
		return
	}
	part := ""
	if !f.Whole {
		part = " (a part)"
	}
	s.o.Say("%s: has %s%s, %.1f MiB in %.1f s", s.at(f.Client), f.Name, part, float64(f.Bytes)/(1<<20), f.Took.Seconds())
}

// claimed is told of machines that have no bundle.
func (s *Server) claimed(r enroll.Request) {
	if r.State == enroll.Unknown {
		s.o.Say("a machine at %s that does not match any node asks for secrets: MACs %s, serial %s", r.Remote, strings.Join(r.Claim.MACs, " "), cmp.Or(r.Claim.Serial, "-"))
		return
	}
	tpm := "It shows no TPM."
	if r.Claim.TPM != nil {
		tpm = "Its TPM has the fingerprint " + attest.Fingerprint(r.Claim.TPM.EK) + "."
	}
	then := "Compare it there. Then: approve " + r.Fingerprint
	if r.State == enroll.Given {
		then = enroll.GivenTo(r.Claim.Node, r.Holder, r.Since) + ".\n  If this one takes its place, compare the fingerprint. Then: approve " +
			r.Fingerprint + " --replace"
	}
	if r.State == enroll.Waiting && r.Holder != "" {
		then = enroll.Again(r.Claim.Node, r.Holder, r.Since) + ".\n  " + then
	}
	s.o.Say("%s at %s has no secrets and shows the fingerprint %s on its console.\n  %s\n  %s",
		r.Claim.Node, r.Remote, r.Fingerprint, tpm, then)
}

// at is who was last heard of at an address.
func (s *Server) at(address string) string {
	if m, ok := s.roster.ByAddress(address); ok {
		return who(m)
	}
	return address
}

func who(m roster.Machine) string {
	name := m.Node
	if name == "" && len(m.MACs) > 0 {
		name = m.MACs[0]
	}
	if m.Address != "" {
		return strings.TrimSpace(name + " (" + m.Address + ")")
	}
	return name
}

// toInstall says what a node is to do beside booting: install itself, and start from its disk once it has. A start that comes to
// nothing, by a cut or a download that fails, is followed by the same order; a disk that has the system is not written to again.
func (s *Server) toInstall(node string) (arguments []string, fromDisk bool) {
	serial, ok := s.o.Install[node]
	if !ok {
		return nil, false
	}
	s.install.Lock()
	defer s.install.Unlock()
	if s.install.done[node] {
		s.o.Say("%s: has installed itself; it starts from its disk now", node)
		return nil, true
	}
	s.o.Say("%s: is to install itself on the disk %s", node, serial)
	if s.o.Answers[node] != "" {
		return []string{"spore.answers=yes"}, false
	}
	return []string{"spore.install=" + serial}, false
}

// answers is the answer file of a node; nothing where it has none.
func (s *Server) answers(node string) []byte { return []byte(s.o.Answers[node]) }

// installed is told that a node has done so; it says whether that was asked for.
func (s *Server) installed(node, disk string) bool {
	if serial, ok := s.o.Install[node]; !ok || serial != disk {
		return false
	}
	s.install.Lock()
	defer s.install.Unlock()
	s.install.done[node] = true
	s.o.Say("%s: has the system on its disk %s", node, disk)
	return true
}

// State is what the operator can be shown.
type State struct {
	Cluster  string           `json:"cluster"`
	Base     string           `json:"base"`
	Machines []roster.Machine `json:"machines"`
	Requests []enroll.Request `json:"requests"`
}

// State returns it.
func (s *Server) State() State {
	return State{s.roster.Nodes().Cluster.Name, s.base, s.roster.Machines(), s.enroll.Requests()}
}

// Approve lets a machine have its node's bundle, which is encrypted to it.
func (s *Server) Approve(a enroll.Approval) error {
	if err := s.enroll.Approve(a); err != nil {
		return err
	}
	s.o.Say("%s is approved; the machine gets its secrets when it asks next", a.Claim.Fingerprint())
	return nil
}

// Challenge has a machine's TPM asked with a nonce.
func (s *Server) Challenge(fingerprint string, nonce []byte) error {
	return s.enroll.Challenge(fingerprint, nonce)
}

// Deny refuses a machine.
func (s *Server) Deny(fingerprint string) error { return s.enroll.Deny(fingerprint) }
