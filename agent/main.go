// Command spore-agent makes a machine the node that it is: it finds out which one, derives everything under /etc, gives
// it its state, starts its roles and says how it is. docs/how-it-works.md tells the order. Here is the table of its
// commands; what they do lies in the packages below.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"spore/agent/answers"
	"spore/agent/bundle"
	"spore/agent/choice"
	"spore/agent/command"
	"spore/agent/config/staged"
	"spore/agent/daemon"
	"spore/agent/datadisk"
	"spore/agent/disks"
	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/identity"
	"spore/agent/images"
	"spore/agent/install"
	"spore/agent/loader"
	"spore/agent/node"
	"spore/agent/pull"
	renderprogram "spore/agent/render/program"
	"spore/agent/revoke"
	emergency "spore/agent/shell"
	"spore/agent/slot"
	"spore/agent/status"
	"spore/agent/timeserver"
	"spore/agent/trial"
	"spore/agent/verbs"
	verblist "spore/agent/verbs/list"
	"spore/agent/verbs/mend"
	"spore/agent/volume"
	"spore/services"
	cephunit "spore/services/ceph/unit"
	kafkaunit "spore/services/kafka/unit"
	etcdunit "spore/services/kubernetes/etcd/unit"
	kubernetesunit "spore/services/kubernetes/unit"
	logsunit "spore/services/logs/unit"
	metricsunit "spore/services/metrics/unit"
	"spore/services/storedisk"
	"spore/wire/nodeapi"
)

// done is what an operator is told who gave up or took over something.
const done = "Done. Restart the machine to use it."

// table is what there is, and what it takes. What a command does lies in a package.
func table(m *node.Machine) command.Table {
	return command.Table{Program: "spore-agent", Example: "spore-agent status --json", Commands: []command.Command{
		{
			Name:  "detect",
			About: "find out which node this machine is and derive its /etc",
			Read: func(a *command.Args) command.Run {
				byNetwork := a.Bool("network", "ask DHCP as well")
				return func(ctx context.Context) error { return identity.Detect(ctx, m, *byNetwork) }
			},
		},
		{
			Name:  "probe",
			About: "ask whether another machine has this node's static addresses",
			Read:  plain(m, identity.Probe),
		},
		{Name: "state", About: "make, find and open the partition for /var", Read: plain(m, volume.Make)},
		{
			Name:    "state adopt",
			About:   "take over a partition for /var that was refused",
			Example: "spore-agent state adopt /dev/sda 3d1219c7-c4c5-404a-aa1f-6d2a48adfda4",
			Read: func(a *command.Args) command.Run {
				words := a.Words("DISK PARTUUID", 2, 2)
				return func(context.Context) error { return told(volume.Adopt(m, (*words)[0], (*words)[1])) }
			},
		},
		{
			Name:    "mount",
			About:   "mount what the command state decided; mount(8) calls it as mount.spore for /var",
			Example: "mount.spore spore /var",
			Read: func(a *command.Args) command.Run {
				words := a.Through("SOURCE DIRECTORY [-o OPTIONS]", 2)
				return func(ctx context.Context) error { return volume.Mount(ctx, m, (*words)[1]) }
			},
		},
		{
			Name:    "mkfs",
			About:   "make encrypted state on a device; systemd-repart(8) calls it as mkfs.spore",
			Example: "mkfs.spore /dev/loop0 --key-file=/run/spore/state-keys/key-1",
			Read: func(a *command.Args) command.Run {
				words := a.Words("DEVICE", 1, 1)
				key := a.Needed("key-file", "FILE", "what opens it")
				return func(ctx context.Context) error { return volume.Format(ctx, (*words)[0], *key) }
			},
		},
		{
			Name:    "disks",
			About:   "prepare the disks that the node's file gives to a service",
			Example: "spore-agent disks osd",
			Read: func(a *command.Args) command.Run {
				words := a.Words(strings.Join(disks.OurUses(), "|")+"|ROLE", 1, 1)
				return func(ctx context.Context) error {
					if use := (*words)[0]; use == datadisk.State {
						return command.Wrongly("no service with disks is called %q", use)
					}
					return disks.Prepare(ctx, m, (*words)[0])
				}
			},
		},
		{
			Name:    "disks-ready",
			About:   "fail while a disk that the node's file gives to a service cannot be used",
			Example: "spore-agent disks-ready metrics",
			Read: func(a *command.Args) command.Run {
				words := a.Words(strings.Join(disks.OurUses(), "|"), 1, 1)
				return func(context.Context) error {
					if use := (*words)[0]; !slices.Contains(disks.OurUses(), use) {
						return command.Wrongly("no service with disks is called %q", use)
					}
					return disks.Check(m, (*words)[0])
				}
			},
		},
		{
			Name:    "reset",
			About:   "delete the state on the boot disk, or everything on a disk of the node's file",
			Example: "spore-agent reset --disk S5H9NS0N",
			Read: func(a *command.Args) command.Run {
				disk := a.Needed("disk", "SERIAL|wwn:WWN|id:NAME", "which disk")
				restart := a.Bool("restart", "even while it is in use, and restart the machine")
				return func(context.Context) error {
					selector, err := install.ParseSelector(*disk)
					if err != nil {
						return command.Wrongly("%v", err)
					}
					return told(disks.Reset(m, selector, *restart))
				}
			},
		},
		{
			Name:    "osd",
			About:   "make or find the Ceph OSD on a disk of the node, and prepare its start",
			Example: "spore-agent osd 1",
			Read: func(a *command.Args) command.Run {
				words := a.Words("NUMBER", 1, 1)
				return func(ctx context.Context) error { return cephunit.PrepareDisk(ctx, m, (*words)[0]) }
			},
		},
		{
			Name:  "bundle",
			About: "take the node's bundle of secrets, and keep it sealed",
			Read: func(a *command.Args) command.Run {
				ask := a.Bool("ask", "ask for its passphrase at the console")
				return func(ctx context.Context) error { return bundle.Take(ctx, m, *ask) }
			},
		},
		{
			Name:  "enroll",
			About: "ask a server for the node's bundle, until it is taken",
			Read:  plain(m, bundle.Enroll),
		},
		{
			Name:  "renew",
			About: "look at the node's certificates again, renew what is due, and have programs take it",
			Read:  plain(m, bundle.Renew),
		},
		{
			Name:  "sign",
			About: "sign certificates for another node that asks on standard input; for the unit of a master",
			Read: plain(m, func(_ context.Context, m *node.Machine) error {
				return bundle.Sign(m, os.Stdin, os.Stdout)
			}),
		},
		{
			Name:    "verb",
			About:   "carry out what a person asks the node to do, on standard input; for a unit of the API",
			Example: "spore-agent verb look",
			Read: func(a *command.Args) command.Run {
				words := a.Words(string(nodeapi.Looks)+"|"+string(nodeapi.Acts), 1, 1)
				return func(ctx context.Context) error {
					kind := nodeapi.Kind((*words)[0])
					if kind != nodeapi.Looks && kind != nodeapi.Acts {
						return command.Wrongly("no kind of verbs is called %q", (*words)[0])
					}
					// Go ends a program that writes to a caller who has gone (os/signal), in the middle of what it does.
					signal.Ignore(syscall.SIGPIPE)
					return verbs.Serve(ctx, m, kind, verblist.Handlers(), os.Stdin, os.Stdout)
				}
			},
		},
		{
			Name:  "choice",
			About: "list nodes, or choose one for this machine, as who stands before it asks on standard input; for a unit",
			Read: plain(m, func(ctx context.Context, m *node.Machine) error {
				signal.Ignore(syscall.SIGPIPE) // As with verbs.
				return choice.Serve(ctx, m, os.Stdin, os.Stdout)
			}),
		},
		{
			Name:  "mend",
			About: "start again what a verb had stopped that was cut off; for a unit of the API, after each verb",
			Read: plain(m, func(ctx context.Context, m *node.Machine) error {
				return mend.After(ctx, m, os.Getenv("SERVICE_RESULT"))
			}),
		},
		{
			Name:  "shell",
			About: "open an emergency shell for a person with a grant, on standard input; for a unit of the API",
			Read:  plain(m, emergency.Serve),
		},
		{Name: "run", About: "start the node's roles and say how they are, until stopped", Read: plain(m, daemon.Run)},
		{
			Name:    "status",
			About:   "print the last status line",
			Example: "spore-agent status --json",
			Read: func(a *command.Args) command.Run {
				asJSON := a.Bool("json", "as the line that the journal has")
				return func(context.Context) error {
					text, err := status.Show(m.Root, *asJSON)
					fmt.Print(text)
					return err
				}
			},
		},
		{
			Name:    "install",
			About:   "put the running system on a disk of the machine",
			Example: "spore-agent install --yes S5H9NS0N",
			Read: func(a *command.Args) command.Run {
				unattended := a.Bool("unattended", "as the firmware or the kernel command line asks; for spore-install.service")
				yes := a.Bool("yes", "do not ask")
				other := a.String("node", "NAME", "the node that the disk chooses, instead of the medium's")
				erase := a.String("erase-state", "SERIAL", "state on the disk with this serial number may be lost")
				words := a.Words("SERIAL|wwn:WWN|id:NAME", 0, 1)
				return func(ctx context.Context) error {
					switch {
					case *unattended && (len(*words) > 0 || *erase != "" || *other != ""):
						return command.Wrongly("--unattended names no disk and no node")
					case *unattended:
						return install.Unattended(ctx, m)
					case len(*words) == 0:
						return command.Wrongly("the disk is missing")
					}
					disk, err := install.ParseSelector((*words)[0])
					if err != nil {
						return command.Wrongly("%v", err)
					}
					wish := install.Wish{Disk: disk, Node: *other, Erase: *erase, Yes: *yes}
					return install.Attended(ctx, m, wish, os.Stdin, os.Stdout)
				}
			},
		},
		{
			Name:    "stage-config",
			About:   "take an update for the next start, as `spore push --output` made it",
			Example: "spore-agent stage-config --reboot /run/plant.update",
			Read: func(a *command.Args) command.Run {
				reboot := a.Bool("reboot", "restart the machine then")
				dry := a.Bool("dry-run", "write nothing, and say what would be done")
				giveUp := a.Bool("give-up-way-back", "also where the node then cannot go back to another root")
				spool := a.Bool("spool", "take what came by the node's API; for spore-stage.service")
				words := a.Words("FILE", 0, 1)
				return func(ctx context.Context) error {
					switch {
					case *spool == (len(*words) == 1):
						return command.Wrongly("name one file, or give --spool")
					case *spool:
						return staged.Spool(ctx, m)
					}
					return staged.File(ctx, m, (*words)[0], slot.Wish{Reboot: *reboot, DryRun: *dry, GiveUp: *giveUp}, os.Stdout)
				}
			},
		},
		{
			Name:    "update",
			About:   "fetch an update from a web server or a folder, for the next start",
			Example: "spore-agent update --from https://updates.example/plant",
			Read: func(a *command.Args) command.Run {
				from := a.String("from", "URL|DIR", "the folder that `spore push --output DIR` made; without it, "+
					"those of updates in cluster.yaml")
				reboot := a.Bool("reboot", "restart the machine then")
				dry := a.Bool("dry-run", "write nothing, and say what would be done")
				return func(ctx context.Context) error {
					switch {
					case *from == "" && (*reboot || *dry):
						return command.Wrongly("--reboot and --dry-run are for --from")
					case *from == "":
						return pull.Look(ctx, m)
					}
					return pull.Run(ctx, m, *from, slot.Wish{Reboot: *reboot, DryRun: *dry}, os.Stdout)
				}
			},
		},
		{
			Name:    "back",
			About:   "go back to the system before, and restart the machine",
			Example: "spore-agent back --dry-run",
			Read: func(a *command.Args) command.Run {
				dry := a.Bool("dry-run", "write nothing, and say what would be started")
				return func(ctx context.Context) error { return staged.Back(ctx, m, slot.Wish{DryRun: *dry}, os.Stdout) }
			},
		},
		{
			Name:  "trial",
			About: "judge a start with a new configuration: stay with it, or go back to the one before",
			Read:  plain(m, trial.Judge),
		},
		{
			Name:  "revoke",
			About: "have the firmware take the revoked images that the configuration names",
			Read:  plain(m, revoke.Run),
		},
		{
			Name:  "loader",
			About: "keep boot loader and boot options in order; try the loader that an update brought at the next start",
			Read: plain(m, func(ctx context.Context, m *node.Machine) error {
				return errors.Join(loader.Run(ctx, m), staged.NoteWayBack(ctx, m))
			}),
		},
		{
			Name:  "time",
			About: "tell other nodes the time, on a node that they ask, until stopped",
			Read:  plain(m, timeserver.Serve),
		},
		{
			Name:  "images",
			About: "take the container images of this system into containerd",
			Read: plain(m, func(ctx context.Context, m *node.Machine) error {
				return images.Import(ctx, m.Root.At(images.Dir), images.Run, m.Say)
			}),
		},
		{
			Name:    "render",
			About:   "write the configuration of a service program into its runtime directory, and become PROGRAM",
			Example: "spore-agent render coredns -- /usr/bin/coredns -conf /run/coredns/Corefile",
			Read: func(a *command.Args) command.Run {
				words, program := a.Words("NAME", 1, 1), a.Tail("PROGRAM [ARGUMENT...]")
				return func(ctx context.Context) error {
					return renderprogram.Run(ctx, m, (*words)[0], *program)
				}
			},
		},
		{
			Name:    "metrics-store",
			About:   "run the store of metrics, and have its oldest samples go where they fill too much",
			Example: "spore-agent metrics-store --data /var/lib/victoria-metrics --size 21474836480 -- /usr/bin/victoria-metrics",
			Read: func(a *command.Args) command.Run {
				dir := a.Needed("data", "DIR", "where its data are")
				size := a.String("size", "BYTES|PERCENT%", "what its data may fill, of the file system where it is a share; 0 is "+
					"without a bound")
				program := a.Tail("PROGRAM [ARGUMENT...]")
				return func(ctx context.Context) error {
					if len(*program) == 0 {
						return command.Wrongly("a PROGRAM is needed")
					}
					bytes, err := storedisk.Bound(*dir, cmp.Or(*size, "0"))
					if err != nil {
						return command.Wrongly("%v", err)
					}
					return metricsunit.Run(ctx, metricsunit.Usual(*dir, bytes, *program), m.Say)
				}
			},
		},
		{
			Name:    "logs-store",
			About:   "run the store of logs, and have its oldest days go where they are too old, or fill too much",
			Example: "spore-agent logs-store --data /var/lib/victoria-logs --password FILE --days 30 -- /usr/bin/victoria-logs",
			Read: func(a *command.Args) command.Run {
				dir := a.Needed("data", "DIR", "where its data are")
				password := a.Needed("password", "FILE", "which has the password of the store")
				counters := a.String("counters", "FILE", "where to write how the store is, for the collector of metrics")
				days := a.Needed("days", "DAYS", "for how many days entries are kept")
				size := a.String("size", "BYTES|PERCENT%", "what its data may fill, of the file system where it is a share; 0 is "+
					"without a bound")
				program := a.Tail("PROGRAM [ARGUMENT...]")
				return func(ctx context.Context) error {
					kept, notDays := strconv.ParseUint(*days, 10, 16)
					if notDays != nil || kept == 0 || len(*program) == 0 {
						return command.Wrongly("a whole number of days and a PROGRAM are needed")
					}
					bytes, err := storedisk.Bound(*dir, cmp.Or(*size, "0"))
					if err != nil {
						return command.Wrongly("%v", err)
					}
					return logsunit.Run(ctx, logsunit.Usual(*dir, *password, *counters, int(kept), bytes, *program), m.Say)
				}
			},
		},
		{
			Name: "metrics-ready", About: "wait until this node's store of metrics answers, at most for a minute",
			Read: plain(m, func(ctx context.Context, m *node.Machine) error { return metricsunit.Ready(ctx, m.Say) }),
		},
		{
			Name:  "ceph",
			About: "give the storage cluster the keys, settings and pools of ceph.yaml",
			Read:  plain(m, cephunit.Bootstrap),
		},
		{
			Name:  "ceph-mon",
			About: "make the data of this node's monitor, when it is known whether to form a quorum or to join one",
			Read:  plain(m, cephunit.Monitor),
		},
		{
			Name:  "ceph-quorum",
			About: "wait until this node's monitor is one of a quorum",
			Read:  plain(m, cephunit.Quorum),
		},
		{Name: "kafka", About: "give Kafka the users and rights of kafka.yaml", Read: plain(m, kafkaunit.Bootstrap)},
		{
			Name:  "kafka-format",
			About: "make Kafka's storage ready, when it is known whether to form a quorum or to join one",
			Read:  plain(m, kafkaunit.Format),
		},
		{Name: "kafka-ready", About: "wait until this node's Kafka serves", Read: plain(m, kafkaunit.Ready)},
		{Name: "api", About: "answer the other nodes and the operator, until stopped", Read: plain(m, answers.Serve)},
		{
			Name:    "formation show",
			About:   "show the members of this node's quorums",
			Example: "spore-agent formation show --json",
			Read: func(a *command.Args) command.Run {
				asJSON := a.Bool("json", "as JSON")
				return func(ctx context.Context) error { return quorum.Show(ctx, m, os.Stdout, *asJSON) }
			},
		},
		{
			Name:    "formation force",
			About:   "form a quorum anew by force",
			Example: "spore-agent formation force kafka --lose kafka-1,kafka-2",
			Read: func(a *command.Args) command.Run {
				lose := a.String("lose", "NAME,...", "give up what these have or may have")
				words := a.Words("SERVICE", 1, 1)
				return func(ctx context.Context) error {
					if _, ok := formation.Lookup(services.Ours(), (*words)[0]); !ok {
						return command.Wrongly("%s is not a quorum service", (*words)[0])
					}
					return quorum.Force(ctx, m, os.Stdout, (*words)[0], list(*lose))
				}
			},
		},
		{
			Name: "etcd",
			About: "the members, snapshots and restore of etcd, on a master; `spore-agent etcd --help` lists what " +
				"there is",
			Read: func(a *command.Args) command.Run {
				words := a.Through("COMMAND", 0)
				return func(context.Context) error { return etcdunit.Program(*words) }
			},
		},
		{
			Name: "etcd-member",
			About: "make this master's etcd such that it may start, when it is known whether to form a quorum or " +
				"to join one",
			Read: plain(m, etcdunit.Member),
		},
		{
			Name: "kubernetes",
			About: "give the cluster what it needs through its API, and approve the certificates of kubelets, " +
				"until stopped",
			Read: plain(m, kubernetesunit.Bootstrap),
		},
		{Name: "kubernetes-node", About: "wait until Kubernetes knows this node", Read: plain(m, kubernetesunit.Node)},
		{
			Name:    "kubernetes-ready",
			About:   "wait until an API server is ready (and allows VERB RESOURCE), with the certificate LEAF",
			Example: "spore-agent kubernetes-ready kube-scheduler",
			Read: func(a *command.Args) command.Run {
				words := a.Words("LEAF [VERB RESOURCE]", 1, 3)
				return func(ctx context.Context) error {
					if len(*words) == 2 {
						return command.Wrongly("RESOURCE is missing")
					}
					return kubernetesunit.Ready(ctx, m, (*words)[0], (*words)[1:])
				}
			},
		},
		{
			Name:  "kubernetes-network",
			About: "wait until felix is ready, and let pods have a network",
			Read:  plain(m, kubernetesunit.Network),
		},
	}}
}

// plain is a command without options and words.
func plain(m *node.Machine, run func(context.Context, *node.Machine) error) func(*command.Args) command.Run {
	return func(*command.Args) command.Run { return func(ctx context.Context) error { return run(ctx, m) } }
}

// told tells how to go on after work that did not fail.
func told(err error) error {
	if err == nil {
		fmt.Println(done)
	}
	return err
}

// list is a list with commas; nil when it is empty.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func main() {
	spawn := status.UsedCPU()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	m := node.New("spore-agent", "/")
	m.Spawn = spawn
	err := table(m).Dispatch(ctx, arguments(os.Args), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "spore-agent:", err)
	}
	os.Exit(command.Status(err))
}

// arguments are what follows the program's name; under the name mount.spore it is the helper of mount(8), and under
// mkfs.spore that of systemd-repart(8).
func arguments(args []string) []string {
	switch filepath.Base(args[0]) {
	case "mount.spore":
		return append([]string{"mount"}, args[1:]...)
	case "mkfs.spore":
		return append([]string{"mkfs"}, args[1:]...)
	}
	return args[1:]
}
