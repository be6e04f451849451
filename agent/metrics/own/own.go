// Package own measures what the agent knows of its node: version, trial, roles, units, ends of certificates, who keeps
// the clock, and the conditions of health. It reads the status line and the certificates of the node, and asks systemd.
package own

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"spore/agent/activate"
	"spore/agent/metrics/family"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/services/logs"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Bounds of what is told of one node.
const (
	maxCertificates = 256
	maxCertificate  = 1 << 20
	maxUnits        = 512
)

// Node is what is measured.
type Node struct {
	Root paths.Root
	// Units lists the units of systemd whose names match one of the patterns.
	Units func(ctx context.Context, patterns []string) ([]dbus.UnitStatus, error)
	// Restarts is how often systemd has started each of these services again by itself, in their order. It is -1 for one
	// that has gone meanwhile.
	Restarts func(ctx context.Context, services []string) ([]int, error)
}

// New is the node below root.
func New(root paths.Root) *Node {
	return &Node{Root: root, Units: systemdUnits, Restarts: systemdRestarts}
}

// systemdUnits asks systemd by its private socket.
func systemdUnits(ctx context.Context, patterns []string) ([]dbus.UnitStatus, error) {
	bus, err := activate.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	return bus.Conn().ListUnitsByPatternsContext(ctx, nil, patterns)
}

// systemdRestarts asks systemd for NRestarts (org.freedesktop.systemd1(5)), which `systemctl restart` sets to 0 again.
func systemdRestarts(ctx context.Context, services []string) ([]int, error) {
	bus, err := activate.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	out := make([]int, len(services))
	for i, s := range services {
		out[i] = -1
		p, err := bus.Conn().GetServicePropertyContext(ctx, s, "NRestarts")
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue
		}
		if n, ok := p.Value.Value().(uint32); ok {
			out[i] = int(n)
		}
	}
	return out, nil
}

// Families is the table of this package.
func Families() []family.Family {
	return []family.Family{
		{Name: "spore_version_info", Type: family.Gauge, Labels: []string{"cluster", "node", "root", "configuration"},
			From: "status line", Help: "1, with the root and the configuration that run, by their hashes."},
		{Name: "spore_build_time_seconds", Type: family.Gauge, From: "status line",
			Help: "When the root that runs was built, in Unix time."},
		{Name: "spore_configuration_serial", Type: family.Gauge, From: "status line",
			Help: "Number of the pushed update that runs; 0 for that of the image."},
		{Name: "spore_configuration_trial", Type: family.Gauge, From: "status line",
			Help: "1 while the configuration has yet to show that the roles come up with it."},
		{Name: "spore_configuration_staged", Type: family.Gauge, From: "status line",
			Help: "1 while an update waits for the next start."},
		{Name: "spore_configuration_withdrawn", Type: family.Gauge, From: "status line",
			Help: "1 where the node went back to an earlier configuration."},
		{Name: "spore_role", Type: family.Gauge, Labels: []string{"role"}, From: "status line",
			Help: "1 for each role that was started, 0 for each that is held back."},
		{Name: "spore_clock_synchronized", Type: family.Gauge, From: "status line",
			Help: "1 while a time server keeps the clock."},
		{Name: "spore_clock_wrong", Type: family.Gauge, From: "status line",
			Help: "1 where the clock was wrong at the start, and no time server has set it."},
		{Name: "spore_status_age_seconds", Type: family.Gauge, From: "status line",
			Help: "How long ago the status line was written."},
		{Name: "spore_condition", Type: family.Gauge, Labels: []string{"condition"}, From: "GET /v1/health",
			Help: "Conditions of health: 0 is ok, 1 a warning, 2 failing."},
		{Name: "spore_healthy", Type: family.Gauge, From: "GET /v1/health", Help: "1 where no condition is failing."},
		{Name: "spore_certificate_end_timestamp_seconds", Type: family.Gauge, Labels: []string{"program", "certificate"},
			From: "certificates", Help: "When a certificate of the node ends, in Unix time."},
		{Name: "spore_authority_end_timestamp_seconds", Type: family.Gauge, Labels: []string{"authority"},
			From: "certificates", Help: "When an authority ends that the node trusts, in Unix time."},
		{Name: "node_systemd_unit_state", Type: family.Gauge, Labels: []string{"name", "state"}, From: "systemd",
			Help: "1 for the state of each unit of the roles and of the agent, and of each unit that has failed."},
		{Name: "node_systemd_service_restart_total", Type: family.Counter, Labels: []string{"name"}, From: "systemd",
			Help: "How often systemd has started a service again by itself: those of the roles, of the agent and of logs."},
		{Name: "node_systemd_units", Type: family.Gauge, Labels: []string{"state"}, From: "systemd",
			Help: "How many units there are, by their states."},
		{Name: "node_systemd_system_running", Type: family.Gauge, From: "status line",
			Help: "1 where systemd has started everything, and no unit has failed."},
	}
}

// Line adds what the status line says.
func (n *Node) Line(into *family.Sink, now time.Time) error {
	at := n.Root.At(paths.Status)
	info, err := os.Stat(at)
	if err != nil {
		return status.Missing(err)
	}
	var l status.Line
	if err := atomicfile.ReadJSON(at, &l); err != nil {
		return fmt.Errorf("read the status line: %w", err)
	}
	var root, configuration string
	if c := l.Configuration; c != nil {
		root, configuration = c.RootHash, c.ClusterHash
		into.Add("spore_configuration_serial", float64(c.Serial))
		into.Flag("spore_configuration_trial", c.Trial)
		into.Flag("spore_configuration_staged", c.Staged != "")
		into.Flag("spore_configuration_withdrawn", c.Problem != "")
	}
	into.Add("spore_version_info", 1, l.Cluster, l.Node, root, configuration)
	if l.BuildTime != 0 {
		into.Add("spore_build_time_seconds", float64(l.BuildTime))
	}
	roles := map[string]bool{}
	for _, h := range l.Held {
		roles[h.Role] = false
	}
	for _, r := range l.Roles {
		roles[r] = true
	}
	for r, started := range roles {
		into.Flag("spore_role", started, r)
	}
	if l.Clock != nil {
		into.Flag("spore_clock_synchronized", l.Clock.Synchronized)
		into.Flag("spore_clock_wrong", l.Clock.Wrong)
	}
	into.Flag("node_systemd_system_running", l.System == "running")
	into.Add("spore_status_age_seconds", now.Sub(info.ModTime()).Seconds())
	return nil
}

// states are how bad a condition is.
var states = map[nodeapi.State]float64{nodeapi.OK: 0, nodeapi.Warning: 1, nodeapi.Failing: 2}

// Health adds the conditions that the API found.
func Health(into *family.Sink, conditions []nodeapi.Condition) {
	if conditions == nil {
		return
	}
	healthy := true
	for _, c := range conditions {
		if state, ok := states[c.State]; ok {
			into.Add("spore_condition", state, c.Name)
		}
		healthy = healthy && c.State != nodeapi.Failing
	}
	into.Flag("spore_healthy", healthy)
}

// Certificates adds the end of each certificate that a program of the node was given or has now, and of each authority.
func (n *Node) Certificates(into *family.Sink) error {
	left := maxCertificates
	programs, err := os.ReadDir(n.Root.At(paths.Secrets))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the certificates of the node: %w", err)
	}
	for _, p := range programs {
		dir := n.Root.At(filepath.Join(paths.Secrets, p.Name()))
		if live, err := filepath.EvalSymlinks(n.Root.At(filepath.Join(paths.Live, p.Name()))); err == nil {
			dir = live // what was renewed since the program was started
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			continue // Programs come and go with roles.
		}
		for _, f := range files {
			name, ok := strings.CutSuffix(f.Name(), "-certificate")
			if !ok || left == 0 {
				continue
			}
			if end, ok := ends(filepath.Join(dir, f.Name()), first); ok {
				into.Add("spore_certificate_end_timestamp_seconds", float64(end.Unix()), p.Name(), name)
				left--
			}
		}
	}
	return n.authorities(into, left)
}

func (n *Node) authorities(into *family.Sink, left int) error {
	files, err := os.ReadDir(n.Root.At(paths.Trust))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the authorities of the node: %w", err)
	}
	for _, f := range files[:min(len(files), left)] {
		name, ok := strings.CutSuffix(f.Name(), ".crt")
		if !ok {
			continue
		}
		if end, ok := ends(n.Root.At(filepath.Join(paths.Trust, f.Name())), last); ok {
			into.Add("spore_authority_end_timestamp_seconds", float64(end.Unix()), name)
		}
	}
	return nil
}

// first is the end of a chain, whose first certificate is the program's own; last is that of several authorities.
func first(all []time.Time) time.Time { return all[0] }
func last(all []time.Time) time.Time  { return slices.MaxFunc(all, time.Time.Compare) }

// ends is when the certificates of a file end, by the rule of those that there are.
func ends(path string, rule func([]time.Time) time.Time) (time.Time, bool) {
	rest, err := atomicfile.ReadLimited(path, maxCertificate)
	if err != nil {
		return time.Time{}, false
	}
	var all []time.Time
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, c.NotAfter)
		}
	}
	if len(all) == 0 {
		return time.Time{}, false
	}
	return rule(all), true
}

// unitStates are those of systemd, as node_exporter has them.
var unitStates = []string{"activating", "active", "deactivating", "failed", "inactive"}

// UnitStates adds the states of units: of those of the roles that the status line has, of the agent's, and of all that
// have failed; and how often services of these, and what reads the journal for stores of logs, were started again.
func (n *Node) UnitStates(ctx context.Context, into *family.Sink) error {
	var l status.Line
	if err := atomicfile.ReadJSON(n.Root.At(paths.Status), &l); err != nil {
		return fmt.Errorf("read the status line: %w", err)
	}
	all, err := n.Units(ctx, []string{"*.service", "*.socket", "*.target", "*.mount", "*.timer", "*.path", "*.swap"})
	if err != nil {
		return fmt.Errorf("list the units of systemd: %w", err)
	}
	slices.SortFunc(all, func(a, b dbus.UnitStatus) int { return strings.Compare(a.Name, b.Name) })
	count := map[string]int{}
	told := 0
	var services []string
	uploader, _, _ := strings.Cut(logs.UploaderUnit, "@")
	for _, u := range all {
		count[u.ActiveState]++
		_, ofRole := l.Services[u.Name]
		ours := strings.HasPrefix(u.Name, "spore-") && filepath.Ext(u.Name) == ".service" && !strings.Contains(u.Name, "@")
		reader := strings.HasPrefix(u.Name, uploader+"@")
		if (ofRole || ours || reader) && filepath.Ext(u.Name) == ".service" && len(services) < maxUnits {
			services = append(services, u.Name)
		}
		if !ofRole && !ours && u.ActiveState != "failed" || told == maxUnits {
			continue
		}
		told++
		for _, s := range unitStates {
			into.Flag("node_systemd_unit_state", u.ActiveState == s, u.Name, s)
		}
	}
	for _, s := range unitStates {
		into.Add("node_systemd_units", float64(count[s]), s)
	}
	restarts, err := n.Restarts(ctx, services)
	if err != nil {
		return fmt.Errorf("ask systemd how often services were started again: %w", err)
	}
	for i, name := range services {
		if restarts[i] >= 0 {
			into.Add("node_systemd_service_restart_total", float64(restarts[i]), name)
		}
	}
	return nil
}
