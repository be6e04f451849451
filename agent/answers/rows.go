package answers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/api"
	"spore/agent/formation/quorum"
	"spore/agent/health"
	"spore/agent/journal"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/quota"
	"spore/agent/renewal"
	"spore/agent/rolehealth"
	"spore/agent/status"
	"spore/agent/verbs"
	"spore/agent/verbs/podlogs"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/services/kubernetes/applyset"
	"spore/services/kubernetes/vip/holder"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// agentGroup is the control group of spore-agent.service.
const agentGroup = "/sys/fs/cgroup/system.slice/spore-agent.service/cgroup.events"

// maxFollowers is how many may read the journal at once: each is a process of journalctl.
const maxFollowers = 8

// statusRow answers with the last status line, as it is.
func statusRow(m *node.Machine) api.Row {
	return api.Row{Method: http.MethodGet, Path: nodeapi.StatusPath, Who: nodeapi.Lookers(), Handle: func(w http.ResponseWriter, _ *http.Request, _ nodeapi.Caller) {
		data, err := atomicfile.ReadLimited(m.Root.At(paths.Status), nodeapi.MaxStatus)
		if err != nil {
			http.Error(w, status.Missing(err).Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data)
	}}
}

// logsRow answers with the journal, or with the lines of a pod. Audit records have the arguments of programs, and pods
// write whatever their users do: they are for whom the configuration names (logRights of cluster.yaml), which is read
// for each question: a change of it is in effect at once.
func logsRow(m *node.Machine) api.Row {
	reader := &journal.Reader{Program: m.Root.At("/usr/bin/journalctl"), Say: m.Say}
	return api.Row{
		Method: http.MethodGet, Path: nodeapi.LogsPath, Who: nodeapi.Lookers(), AtOnce: maxFollowers, Traced: true,
		Handle: func(w http.ResponseWriter, r *http.Request, c nodeapi.Caller) {
			shared, err := m.Part.Cluster()
			if err != nil {
				m.Say("who may read which logs is not known: " + err.Error())
				http.Error(w, "this node does not know who may read which logs; see its journal", http.StatusInternalServerError)
				return
			}
			q, err := nodeapi.ParseLogs(r.URL.Query())
			if err != nil || q.Pod == "" {
				reader.Answer(w, r, c.Listed(shared.LogRights.ForAudit()))
				return
			}
			if err := podlogs.May(c, shared.LogRights); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			reader.AnswerPod(w, r, q, func(ctx context.Context) (io.ReadCloser, error) { return podLines(ctx, m, c, q) })
		},
	}
}

// podLines has the process of root read the files of a pod, and returns its events.
func podLines(ctx context.Context, m *node.Machine, c nodeapi.Caller, q nodeapi.Logs) (io.ReadCloser, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.Root.At(verbs.Socket(nodeapi.Looks)))
	if err != nil {
		return nil, fmt.Errorf("what reads the files of pods does not run; see spore-look.socket: %w", err)
	}
	call, err := json.Marshal(verbs.Call{Verb: nodeapi.PodLogs, Order: podlogs.Order(q), Caller: c.Name, Roles: c.Roles, Nodes: c.Nodes})
	if err == nil {
		_, err = conn.Write(append(call, '\n'))
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("what reads the files of pods does not listen: %w", err)
	}
	return conn, nil
}

// healthRow answers how the node is.
func healthRow(m *node.Machine, c *facts.Cluster, n *facts.Node, lines *rolehealth.Lines) api.Row {
	return api.Row{Method: http.MethodGet, Path: nodeapi.HealthPath, Who: nodeapi.Lookers(), Handle: func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
		data, err := json.Marshal(health.Of(healthInput(r.Context(), m, c, n, lines)))
		if err != nil {
			http.Error(w, "internal error: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(data, '\n'))
	}}
}

// healthInput looks at this node, without privileges. Lines of journals that were found before are not looked for again.
func healthInput(ctx context.Context, m *node.Machine, c *facts.Cluster, n *facts.Node, lines *rolehealth.Lines) health.Input {
	in := health.Input{
		Cluster: c, Node: n, Now: m.Now(), Up: time.Duration(status.SinceBoot() * float64(time.Second)),
		AgentRuns: agentRuns(m), CertificateEnds: ownEnd(m), Var: spaceOf(m.Root.At("/var")),
	}
	if err := atomicfile.ReadJSON(m.Root.At(paths.Status), &in.Line); err != nil {
		in.LineProblem = status.Missing(err).Error()
	}
	for _, i := range n.Interfaces {
		for _, a := range i.Addresses {
			if p, err := netip.ParsePrefix(a); err == nil {
				in.Addresses = append(in.Addresses, p.Addr().String())
			}
		}
	}
	in.Quotas = quotasOf(m, quota.Of(c, n))
	for _, s := range quorum.Of(c, n) {
		in.Quorums = append(in.Quorums, health.Quorum{Service: s.Name, Unit: s.Unit, Members: s.Initial(c)})
	}
	var err error
	if in.Renewal, err = (&renewal.File{Path: m.Root.At(paths.Renewal)}).Read(); err != nil {
		in.RenewalProblem = "it is not known how far the node is with new certificates: " + err.Error()
	}
	in.Snapshots = snapshotsKept(m, c, n)
	in.Endpoint = health.EndpointOf(m.Root.At(holder.File), c, n)
	in.Manifests = health.ManifestsOf(m.Root.At(applyset.File), n, m.Part.HasManifests())
	in.Memory = node.Memory()
	in.OwnRoles = ownRoles(ctx, m, c, in.Line, lines)
	return in
}

// ownRoles asks the roles of the configuration's own that the node has started, all at once.
func ownRoles(ctx context.Context, m *node.Machine, c *facts.Cluster, line status.Line, lines *rolehealth.Lines) []health.OwnRole {
	ask := rolehealth.Asker{Services: c.Services, Journal: rolehealth.Journal{
		Program: "/usr/bin/journalctl", Units: m.Root.At("/run/systemd/units"), Lines: lines,
	}, Results: m.Root.At("/run"), SinceBoot: status.SinceBoot}
	for _, a := range line.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil {
			ask.Addresses = append(ask.Addresses, ip)
		}
	}
	var out []health.OwnRole
	var own []*role.Definition
	for _, name := range line.Roles {
		of, _ := services.Of(c).Own(name)
		if d, ok := of.(*role.Definition); ok {
			own, out = append(own, d), append(out, health.OwnRole{Name: name, Units: d.Units, Triggered: d.Triggered()})
		}
	}
	var asking sync.WaitGroup
	for i, d := range own {
		asking.Go(func() {
			answer, err := ask.Ask(ctx, d)
			if out[i].Health = answer; err != nil {
				out[i].Problem = err.Error()
			}
		})
	}
	asking.Wait()
	return out
}

// agentRuns tells whether there is a process in the control group of spore-agent.service (Linux, cgroup-v2.rst):
// systemd speaks to root alone where there is no message bus. Where that is unknown, it is taken to run.
func agentRuns(m *node.Machine) bool {
	data, err := atomicfile.ReadLimited(m.Root.At(agentGroup), 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		// The group goes away with its last process, and a machine without such groups has none of them.
		_, err := os.Stat(m.Root.At("/sys/fs/cgroup/system.slice"))
		return err != nil
	}
	return err != nil || bytes.Contains(data, []byte("populated 1"))
}

// ownEnd is when the certificate of the node's agent ends; zero when it cannot be read.
func ownEnd(m *node.Machine) time.Time {
	id, err := m.OwnIdentity()
	if err != nil {
		return time.Time{}
	}
	pair, err := tls.X509KeyPair(id.Certificate, id.Key)
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// quotasOf looks at directories with a quota. One that is not there yet fills nothing: a unit makes it when it starts.
func quotasOf(m *node.Machine, limits []quota.Limit) []health.Quota {
	var out []health.Quota
	for _, l := range limits {
		q := health.Quota{Path: l.Path, Bytes: l.Bytes}
		_, err := os.Lstat(m.Root.At(l.Path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if q.Hidden = errors.Is(err, fs.ErrPermission); !q.Hidden {
			q.Is = spaceOf(m.Root.At(l.Path))
		}
		out = append(out, q)
	}
	return out
}

// spaceOf is how full the file system of a directory is, or the directory where it has a quota.
func spaceOf(dir string) health.Space {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return health.Space{Problem: fmt.Sprintf("it is not known how full %s is: %v", dir, err)}
	}
	size := uint64(s.Frsize)
	return health.Space{Bytes: s.Blocks * size, FreeBytes: s.Bavail * size, Files: s.Files, FreeFiles: s.Ffree}
}
