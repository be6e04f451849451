// Command spore-agent makes a machine the node that it is: it finds out which one, derives everything under /etc, gives it
// its state, starts its roles and says how it is. docs/how-it-works.md
// tells the order.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"spore/agent/node"
	"spore/agent/status"
)

// command is a subcommand.
type command struct {
	name, usage, about string
	run                func(ctx context.Context, m *node.Machine, args []string) error
}

// commands is the table of subcommands.
func commands() []command {
	return []command{
		{"detect", "[--network]", "find out which node this machine is and derive its /etc; --network asks DHCP", detectCommand},
		{"probe", "", "ask whether another machine has this node's static addresses", probeCommand},
		{"state", "[adopt DISK PARTUUID]", "make, find and open the partition for /var; adopt one that is foreign", stateCommand},
		{"disks", "kafka|osd", "prepare the disks that the node's file gives to a service", disksCommand},
		{"reset", "--disk SERIAL [--restart]", "delete the state on the boot disk, or everything on a disk of the node's file; --restart even while it is in use", resetCommand},
		{"osd", "NUMBER", "make or find the Ceph OSD on a disk of the node, and prepare its start", osdCommand},
		{"bundle", "[--ask]", "take the node's bundle of secrets, and keep it sealed; --ask asks for its passphrase", bundleCommand},
		{"enroll", "", "ask the server that the machine was booted from for its bundle, until it is taken", enrollCommand},
		{"renew", "", "look at the node's certificates again, renew what is due, and have programs take it", renewCommand},
		{"sign", "", "sign certificates for another node that asks on standard input; for the unit of a master", signCommand},
		{"run", "", "start the node's roles and say how they are, until stopped", runCommand},
		{"status", "[--json]", "print the last status line", statusCommand},
		{"install", "[--yes] [--node NAME] DISK", "put the running system on the disk with this serial number (or wwn:WWN, id:NAME)", installCommand},
		{"stage-config", "[--reboot] FILE", "take a new configuration for the next start, as `spore push --output` made it", stageCommand},
		{"trial", "", "judge a start with a new configuration: stay with it, or go back to the one before", trialCommand},
		{"revoke", "", "have the firmware take the revoked images that the configuration names", revokeCommand},
		{"time", "", "tell other nodes the time, on a node that they ask, until stopped", timeCommand},
		{"images", "", "take the container images of this system into containerd", imagesCommand},
		{"render", "NAME [[--ready] -- PROGRAM [ARGUMENT...]]", "write the configuration of a service program into its runtime directory, and become PROGRAM", renderCommand},
		{"ceph", "", "give the storage cluster the keys, settings and pools of ceph.yaml", cephCommand},
		{"ceph-mon", "", "make the data of this node's monitor, when it is known whether to form a quorum or to join one", cephMonCommand},
		{"ceph-quorum", "", "wait until this node's monitor is one of a quorum", cephQuorumCommand},
		{"kafka", "", "give Kafka the users and rights of kafka.yaml", kafkaCommand},
		{"kafka-format", "", "make Kafka's storage ready, when it is known whether to form a quorum or to join one", kafkaFormatCommand},
		{"kafka-ready", "", "wait until this node's Kafka serves", kafkaReadyCommand},
		{"api", "", "answer the other nodes and the operator, until stopped", apiCommand},
		{"formation", "show|force SERVICE", "show the members of this node's quorums, or form one anew by force", formationCommand},
		{"etcd", "COMMAND", "the members, snapshots and restore of etcd, on a master; `etcd help` lists what there is", etcdCommand},
		{"etcd-member", "", "make this master's etcd such that it may start, when it is known whether to form a quorum or to join one", etcdMemberCommand},
		{"kubernetes", "", "give the cluster what it needs through its API, and approve the certificates of kubelets, until stopped", kubernetesCommand},
		{"kubernetes-node", "", "wait until Kubernetes knows this node", kubernetesNodeCommand},
		{"kubernetes-ready", "LEAF [VERB RESOURCE]", "wait until an API server is ready (and allows VERB RESOURCE), with the certificate LEAF", kubernetesReadyCommand},
		{"kubernetes-network", "", "wait until felix is ready, and let pods have a network", kubernetesNetworkCommand},
	}
}

// usageError is wrong usage: exit code 2.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

func main() {
	spawn := status.UsedCPU()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	m := node.New("spore-agent", "/")
	m.Spawn = spawn
	err := dispatch(ctx, m, os.Args)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "spore-agent:", err)
	if _, ok := err.(usageError); ok {
		os.Exit(2)
	}
	os.Exit(1)
}

// dispatch runs what the arguments say; under the name mount.spore the program is the helper of mount(8).
func dispatch(ctx context.Context, m *node.Machine, args []string) error {
	if filepath.Base(args[0]) == "mount.spore" {
		return mountCommand(ctx, m, args[1:])
	}
	if len(args) > 1 {
		for _, c := range commands() {
			if c.name == args[1] {
				return c.run(ctx, m, args[2:])
			}
		}
	}
	if len(args) > 1 && (args[1] == "--help" || args[1] == "help") {
		fmt.Print(usage())
		return nil
	}
	return usageError{"wrong usage\n" + usage()}
}

func usage() string {
	s := "Usage: spore-agent COMMAND\n\n"
	for _, c := range commands() {
		s += fmt.Sprintf("  %-46s %s\n", c.name+" "+c.usage, c.about)
	}
	return s + "\nExample: spore-agent status --json\n"
}
