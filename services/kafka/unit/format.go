package unit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/node"
	"spore/cluster/facts"
	"spore/services/kafka"
	"spore/services/kafka/kraft"
	kafkanode "spore/services/kafka/node"
	"spore/storage/atomicfile"
)

const (
	// account is whose Kafka's directories are.
	account = "kafka"
	// storageTool is Kafka's own.
	storageTool = "/usr/bin/kafka-storage"
	// javaProgram is what kafka.service starts.
	javaProgram = "/usr/bin/java"
)

// Format makes Kafka's storage ready before Kafka starts, as root: a controller's when it is known whether to
// form a quorum or to join the one that is there.
func Format(ctx context.Context, m *node.Machine) error {
	c, n, err := self(m)
	if err != nil {
		return err
	}
	dir := node.RuntimeDirectory("kafka")
	if dir == "" {
		return errors.New("RUNTIME_DIRECTORY is not set: kafka-format is for ExecStartPre= of kafka.service")
	}
	storage, err := storageOf(c, n)
	if err != nil {
		return err
	}
	if err := storage.Check(); err != nil {
		return err
	}
	if slices.Contains(kafka.Brokers(c), n.Name) && kafka.Of(c.Services).AcknowledgeFromMemory {
		m.Say("kafka.yaml has acknowledgeFromMemory: records are acknowledged before they are on a disk, and brokers that lose power together lose them")
	}
	if err := archive(m, dir); err != nil { // It only saves time.
		m.Say(err.Error())
	}
	format := func(ctx context.Context, voters []kraft.Voter) error {
		return storage.Format(ctx, voters, filepath.Join(dir, "server.properties"), filepath.Join(dir, "format.properties"), func(ctx context.Context, arguments []string) error {
			return tool(ctx, m, arguments)
		})
	}
	if slices.Contains(kafka.Controllers(c), n.Name) {
		_, err := quorum.Enter(ctx, m, kafka.Quorum(), storage.Empty, func(ctx context.Context, p formation.Plan) error {
			if err := storage.Clear(); err != nil {
				return err
			}
			if p.Kind != formation.Form {
				return format(ctx, nil)
			}
			voters, err := votersOf(m, storage.Cluster, p)
			if err != nil {
				return err
			}
			return format(ctx, voters)
		})
		if err != nil {
			return err
		}
	}
	// What is left is a broker's that is no controller, or a disk that is new.
	if empty, err := storage.Empty(); err != nil {
		return err
	} else if empty {
		if err := storage.Clear(); err != nil {
			return err
		}
	}
	if left, err := storage.Unformatted(); err != nil || len(left) == 0 {
		return err
	}
	return format(ctx, nil)
}

// archive says in the runtime directory which archive of classes the JVM is to use.
func archive(m *node.Machine, dir string) error {
	path := filepath.Join(dir, "archive.args")
	if _, err := atomicfile.Write(path, nil, 0o644); err != nil {
		return err
	}
	options, err := kraft.ReadRuntime(filepath.Join(dir, "jvm.args"))
	if err != nil {
		return fmt.Errorf("read the options of the JVM: %w", err)
	}
	for _, name := range []string{"KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS"} { // kafka.env, which the unit reads
		options = append(options, os.Getenv(name)+"\n"...)
	}
	files, err := filepath.Glob(kafkanode.Jars)
	if err != nil {
		return err
	}
	java, err := filepath.EvalSymlinks(javaProgram)
	if err != nil {
		return fmt.Errorf("look for Java: %w", err)
	}
	lib := filepath.Join(filepath.Dir(filepath.Dir(java)), "lib")
	files = append(files, filepath.Join(lib, "modules"), filepath.Join(lib, "server/libjvm.so"), filepath.Join(lib, "server/classes.jsa"))
	archive, err := kraft.Archive(kafkanode.Archives, files, options)
	if err != nil {
		return err
	}
	_, err = atomicfile.Write(path, kafkanode.Archive(archive), 0o644)
	return err
}

// storageOf is where this node's Kafka keeps its data.
func storageOf(c *facts.Cluster, n *facts.Node) (*kraft.Storage, error) {
	id, err := node.Secret("kafka-cluster-id")
	if err != nil {
		return nil, err
	}
	s := &kraft.Storage{Metadata: kafka.Metadata, Cluster: strings.TrimSpace(string(id)), Node: kafka.ID(n.Name)}
	if slices.Contains(kafka.Brokers(c), n.Name) {
		s.Disks, s.Data = kafkanode.Logs(n)
	}
	return s, nil
}

// votersOf are the controllers that form the quorum, as each of them computes them.
func votersOf(m *node.Machine, cluster string, p formation.Plan) ([]kraft.Voter, error) {
	var out []kraft.Voter
	for _, name := range p.Names() {
		n, err := m.Part.Node(name)
		if err != nil {
			return nil, err
		}
		if len(n.IPs) == 0 {
			return nil, fmt.Errorf("the controller %s has no address in cluster.yaml; give it one under ips", name)
		}
		out = append(out, kraft.Voter{
			Node: kafka.ID(name), Address: net.JoinHostPort(n.IPs[0], strconv.Itoa(kafka.ControllerPort)),
			Directory: kraft.DirectoryID(cluster, name, p.Members[name]),
		})
	}
	return out, nil
}

// tool runs Kafka's StorageTool as the user that Kafka runs as.
func tool(ctx context.Context, m *node.Machine, arguments []string) error {
	uid, gid, err := accountOf(account)
	if err != nil {
		return err
	}
	m.Say("formatting the storage of Kafka")
	cmd := exec.CommandContext(ctx, storageTool, arguments...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != "" {
			m.Say(line)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", storageTool, err)
	}
	return nil
}

func accountOf(name string) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	ids := [2]uint32{}
	for i, text := range []string{u.Uid, u.Gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, 0, fmt.Errorf("account %s: %w", name, err)
		}
		ids[i] = uint32(n)
	}
	return ids[0], ids[1], nil
}
