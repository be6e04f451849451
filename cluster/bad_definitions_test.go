package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/role"
	"spore/cluster/role/unit"
)

// own are the files of the role in the folder of ownRole.
const (
	own  = "roles/valkey.yaml"
	conf = "roles/valkey/valkey.conf.tmpl"
)

// listed, onEdge and valued give edge-01 the role of ownRole, and disk gives it a disk for the role.
var (
	listed = edit{"cluster.yaml", "mqtt, dns]", "mqtt, dns, valkey]"}
	onEdge = edit{"cluster.yaml", "[mqtt-broker, dns-server]", "[mqtt-broker, dns-server, valkey]"}
	valued = edit{"services/valkey.yaml", "", "maxMemory: 64MiB\n"}
)

var disk = edit{"nodes/edge-01.yaml", "", "node: edge-01\ndisks: [{use: valkey, selector: {serial: V1}}]\n"}

// badDefinitions holds mistakes in a role of the user's own: edits of examples/own-valkey in the six-node cluster, and
// what is said about them.
var badDefinitions = []badInput{
	// Names.
	{"a name with a capital", []edit{{"roles/Valkey.yaml", "", "description: x\nunits: [x.service]\n"}}, []string{
		`roles/Valkey.yaml:1:1: error: "Valkey" is not the name of a role; write 2 to 32 lower-case letters, digits and -, the first a letter; rename the file`,
	}},
	{"the name of a service", []edit{{"roles/mqtt.yaml", "", "description: x\nunits: [x.service]\n"}}, []string{
		`roles/mqtt.yaml:1:1: error: the name "mqtt" belongs to the service mqtt; rename the file`,
	}},
	{"the name of a role", []edit{{"roles/control-plane.yaml", "", "description: x\nunits: [x.service]\n"}}, []string{
		`roles/control-plane.yaml:1:1: error: the name "control-plane" belongs to the service kubernetes; rename the file`,
	}},
	{"another name of a role", []edit{{"roles/master.yaml", "", "description: x\nunits: [x.service]\n"}}, []string{
		`roles/master.yaml:1:1: error: the name "master" belongs to the service kubernetes; rename the file`,
	}},
	{"the name of a program", []edit{{"roles/etcd.yaml", "", "description: x\nunits: [x.service]\n"}}, []string{
		`roles/etcd.yaml:1:1: error: the name "etcd" belongs to the service kubernetes; rename the file`,
	}},
	{"a target of systemd", []edit{{"roles/network-online.yaml", "", "description: x\nunits: [x.service]\n"}}, []string{
		`roles/network-online.yaml:1:1: error: the name "network-online" is of the node itself, which has a unit or target of it; rename the file`,
	}},
	{"a target of a role of ours", []edit{{"roles/kubernetes-worker.yaml", "", "description: x\nunits: [x.service]\n"}, {"roles/ceph-osd.yaml", "", "description: x\nunits: [y.service]\n"}}, []string{
		`roles/ceph-osd.yaml:1:1: error: the name "ceph-osd" belongs to the service ceph; rename the file`,
		`roles/kubernetes-worker.yaml:1:1: error: the name "kubernetes-worker" is of the node itself, which has a unit or target of it; rename the file`,
	}},
	{"a name of ours", []edit{{"roles/spore-late.yaml", "", "description: x\nunits: [x.service]\n"}}, []string{
		`roles/spore-late.yaml:1:1: error: the name "spore-late" is of the node itself, which has a unit or target of it; rename the file`,
	}},
	{"a role of another role's name", []edit{{"roles/valkey.yml", "", "description: x\n"}}, []string{
		`roles/valkey.yml:1:1: error: files end in .yaml; rename it to valkey.yaml`,
	}},
	{"a file that nothing reads", []edit{{"roles/README.md", "", "x"}}, []string{
		`roles/README.md:1:1: error: nothing reads this file; roles/ holds NAME.yaml, and templates in roles/NAME/`,
	}},
	{"templates of no role", []edit{{"roles/valky/x.tmpl", "", "x"}}, []string{
		`roles/valky:1:1: error: there is no role of these templates; write roles/valky.yaml; did you mean "valkey"?`,
	}},
	{"the folder misspelt", []edit{{"role/x.yaml", "", "x: y\n"}}, []string{
		`role:1:1: error: nothing reads this directory; did you mean "roles"?`,
	}},

	// What every role says.
	{"an empty file", []edit{{own, "", ""}}, []string{
		`roles/valkey.yaml:1:1: error: the file is empty; it needs at least the key "description"`,
		`roles/valkey.yaml:1:1: error: the file is empty; it needs at least the key "units"`,
		`roles/valkey/valkey.conf.tmpl:1:1: error: no file of roles/valkey.yaml is made from this template; name it there, or remove it`,
	}},
	{"no description", []edit{{own, "description: Valkey, a key-value store\n", ""}}, []string{
		`roles/valkey.yaml:4:1: error: the key "description" is missing; add it and write a text`,
	}},
	{"an empty description", []edit{{own, "description: Valkey, a key-value store", `description: " "`}}, []string{
		`roles/valkey.yaml:4:14: error: the description is empty; write one line`,
	}},
	{"a description of several lines", []edit{{own, "description: Valkey, a key-value store", `description: "a\nb"`}}, []string{
		`roles/valkey.yaml:4:14: error: the description is longer than one line of 200 bytes; write less`,
	}},
	{"a description with a control character", []edit{{own, "description: Valkey, a key-value store", `description: "a\x1bb"`}}, []string{
		`roles/valkey.yaml:4:14: error: the description has a control character or ends in \; write one line of words`,
	}},
	{"a description that goes on in the next line of a unit", []edit{{own, "description: Valkey, a key-value store", `description: a\`}}, []string{
		`roles/valkey.yaml:4:14: error: the description has a control character or ends in \; write one line of words`,
	}},
	{"an unknown key", []edit{{own, "packages:", "package:"}}, []string{
		`roles/valkey.yaml:5:1: error: unknown key "package"; did you mean "packages"?`,
	}},
	{"a dash as key", []edit{{own, "packages:", `"-": x` + "\npackages:"}}, []string{
		`roles/valkey.yaml:5:1: error: unknown key "-"; known keys: description, packages, programs, units, user, directories, disks, memory, architectures, ports, settings, files, secrets, live, health, tests, logs, needs`,
	}},
	{"a package with a blank", []edit{{own, "valkey-tools]", "\"valkey tools\"]"}}, []string{
		`roles/valkey.yaml:5:27: error: "valkey tools" is not the name of a Debian package; write one such as valkey-server`,
	}},
	{"a package twice", []edit{{own, "valkey-tools]", "valkey-server]"}}, []string{
		`roles/valkey.yaml:5:27: error: the entry "valkey-server" exists already, at roles/valkey.yaml:5; remove one`,
	}},
	{"a program with a slash", []edit{{own, "packages:", "programs: [a/b]\npackages:"}}, []string{
		`roles/valkey.yaml:5:12: error: programs/ has no program "a/b"; write gateway, pinned, script, tool or zip, or add the program`,
	}},
	{"a program misspelt", []edit{{own, "packages:", "programs: [gatewy]\npackages:"}}, []string{
		`roles/valkey.yaml:5:12: error: programs/ has no program "gatewy"; did you mean "gateway"?`,
	}},
	{"another program", []edit{{own, "packages:", "programs: [gateway, historian]\npackages:"}}, []string{
		`roles/valkey.yaml:5:21: error: programs/ has no program "historian"; write gateway, pinned, script, tool or zip, or add the program`,
	}},
	{"a program twice", []edit{{own, "packages:", "programs: [gateway, gateway]\npackages:"}}, []string{
		`roles/valkey.yaml:5:21: error: the entry "gateway" exists already, at roles/valkey.yaml:5; remove one`,
	}},

	// Units.
	{"no units", []edit{{own, "units: [valkey-server.service]", "units: []"}}, []string{
		`roles/valkey.yaml:6:8: error: a role without units does nothing; write those that start with it, such as valkey-server.service`,
	}},
	{"a unit without a kind", []edit{{own, "units: [valkey-server.service]", "units: [valkey-server.service, valkey]"}}, []string{
		`roles/valkey.yaml:6:32: error: "valkey" is not the name of a service, timer, socket or path that systemd starts; write one such as valkey-server.service or backup@daily.timer`,
	}},
	{"a template without an instance", []edit{{own, "units: [valkey-server.service]", "units: [valkey-server.service, backup@.timer]"}}, []string{
		`roles/valkey.yaml:6:32: error: "backup@.timer" is not the name of a service, timer, socket or path that systemd starts; write one such as valkey-server.service or backup@daily.timer`,
	}},
	{"a unit whose drop-ins would be those of all with the prefix", []edit{{own, "units: [valkey-server.service]", "units: [valkey-server.service, kube-.service, kube-@a.service, b@c-.timer, -.service]"}}, []string{
		`roles/valkey.yaml:6:32: error: "kube-.service" is not the name of a service, timer, socket or path that systemd starts; write one such as valkey-server.service or backup@daily.timer`,
		`roles/valkey.yaml:6:47: error: "kube-@a.service" is not the name of a service, timer, socket or path that systemd starts; write one such as valkey-server.service or backup@daily.timer`,
		`roles/valkey.yaml:6:64: error: "b@c-.timer" is not the name of a service, timer, socket or path that systemd starts; write one such as valkey-server.service or backup@daily.timer`,
		`roles/valkey.yaml:6:76: error: "-.service" is not the name of a service, timer, socket or path that systemd starts; write one such as valkey-server.service or backup@daily.timer`,
	}},
	{"a unit of a service", []edit{{own, "units: [valkey-server.service]", "units: [valkey-server.service, kafka.service]"}}, []string{
		`roles/valkey.yaml:6:32: error: the unit "kafka.service" belongs to the service kafka; write a unit of the role's own`,
	}},
	{"a unit of the node", []edit{{own, "units: [valkey-server.service]", "units: [valkey-server.service, spore-agent.service]"}}, []string{
		`roles/valkey.yaml:6:32: error: the unit "spore-agent.service" is of the node itself; write a unit of the role's own`,
	}},
	{"timers of services of ours", []edit{{"roles/backup.yaml", "", "description: x\nunits: [etcd-snapshot.timer, kubelet.path, mosquitto.socket, ceph-osd-disk@x.timer, cluster-detect.timer]\n"}}, []string{
		`roles/backup.yaml:2:9: error: the unit etcd-snapshot.timer starts "etcd-snapshot.service", which belongs to the service kubernetes; write a unit of the role's own`,
		`roles/backup.yaml:2:30: error: the unit kubelet.path starts "kubelet.service", which belongs to the service kubernetes; write a unit of the role's own`,
		`roles/backup.yaml:2:44: error: the unit mosquitto.socket starts "mosquitto.service", which belongs to the service mqtt; write a unit of the role's own`,
		`roles/backup.yaml:2:62: error: the unit ceph-osd-disk@x.timer starts "ceph-osd-disk@x.service", which belongs to the service ceph; write a unit of the role's own`,
		`roles/backup.yaml:2:85: error: the unit "cluster-detect.timer" is of the node itself; write a unit of the role's own`,
	}},
	{"a service and its timer in two roles", []edit{
		{"roles/job.yaml", "", "description: x\nunits: [job.service]\n"}, {"roles/zebra.yaml", "", "description: x\nunits: [job.timer]\n"},
	}, []string{
		`roles/zebra.yaml:2:9: error: the unit job.timer starts "job.service", which belongs to the role job (roles/job.yaml:1); write a unit of the role's own`,
	}},
	{"a timer that starts a unit of the node", []edit{
		{"roles/job.yaml", "", "description: x\nunits: [job.timer]\n"}, {"units/job.service", "", "[Service]\nExecStart=/usr/bin/true\n"},
		{"units/job.timer", "", "[Timer]\nOnCalendar=daily\nUnit=spore-agent.service\n"},
	}, []string{
		`units/job.timer:3:1: error: Unit=spore-agent.service: that unit is of the node itself, and job.timer is of the role job (roles/job.yaml:2); let it start job.service`,
	}},
	{"a timer that starts a unit of a service", []edit{
		{"roles/job.yaml", "", "description: x\nunits: [job.timer]\n"}, {"units/job.service", "", "[Service]\nExecStart=/usr/bin/true\n"},
		{"units/job.timer", "", "[Timer]\nOnCalendar=daily\nUnit=\"kafka.service\"\n"},
	}, []string{
		`units/job.timer:3:1: error: Unit="kafka.service": that unit belongs to the service kafka, and job.timer is of the role job (roles/job.yaml:2); let it start job.service`,
	}},
	{"a drop-in by which a path starts a unit of another role", []edit{
		{"roles/zebra.yaml", "", "description: x\nunits: [job.path]\n"}, {"units/job.service", "", "[Service]\nExecStart=/usr/bin/true\n"},
		{"units/job.path", "", "[Path]\nPathChanged=/var/lib/job\n"}, {"units/job.path.d/more.conf", "", "[Path]\nUnit=valkey-server.service\n"},
	}, []string{
		`units/job.path.d/more.conf:2:1: error: Unit=valkey-server.service: that unit belongs to the role valkey (roles/valkey.yaml:4), and job.path is of the role zebra (roles/zebra.yaml:2); let it start job.service`,
	}},
	{"a timer of an instance that starts a unit without the hardening", []edit{
		{"roles/job.yaml", "", "description: x\nunits: [job@daily.timer]\n"}, {"units/job@.service", "", "[Service]\nExecStart=/usr/bin/true\n"},
		{"units/plain.service", "", "[Service]\nExecStart=/usr/bin/true\n"}, {"units/job@.timer", "", "[Timer]\nOnCalendar=%i\nUnit=plain.service\n"},
	}, []string{
		`units/job@.timer:3:1: error: Unit=plain.service: job@daily.timer is of the role job (roles/job.yaml:2), whose user and hardening are those of job@daily.service; let it start that`,
	}},
	{"a timer that starts what the machine alone knows", []edit{
		{"roles/job.yaml", "", "description: x\nunits: [job.timer]\n"}, {"units/job.service", "", "[Service]\nExecStart=/usr/bin/true\n"},
		{"units/job.timer", "", "[Timer]\nOnCalendar=daily\nUnit=%H.service\n"},
	}, []string{
		`units/job.timer:3:1: error: Unit=%H.service: job.timer is of the role job (roles/job.yaml:2), whose user and hardening are those of job.service; let it start that`,
	}},
	{"a socket that starts an instance for each connection", []edit{
		{"roles/job.yaml", "", "description: x\nunits: [job.socket]\n"}, {"units/job@.service", "", "[Service]\nExecStart=/usr/bin/true\n"},
		{"units/job.socket", "", "[Socket]\nListenStream=/run/job\nAccept=yes\n"},
	}, []string{
		`units/job.socket:3:1: error: Accept=yes: job.socket is of the role job (roles/job.yaml:2), whose user and hardening are those of job.service; let it start that`,
	}},
	{"a timer beside the service that it starts", []edit{{own, "units: [valkey-server.service]", "units: [valkey-server.service, valkey-server.timer]"}}, []string{
		`roles/valkey.yaml:6:32: error: the timer starts valkey-server.service, which the role starts as well; remove one of both: OnActiveSec= in the timer starts it with the role, too`,
	}},
	{"logs of a unit that it has not", []edit{{own, "health:", "logs: [valkey.service]\nhealth:"}}, []string{
		`roles/valkey.yaml:60:8: error: the unit "valkey.service" is unknown; write valkey-server.service`,
	}},

	// Users.
	{"a user of a service", []edit{{own, "{name: valkey}", "{name: kafka}"}}, []string{
		`roles/valkey.yaml:7:14: error: the user "kafka" belongs to the service kafka; write one of the role's own, such as valkey`,
	}},
	{"root as user", []edit{{own, "{name: valkey}", "{name: root}"}}, []string{
		`roles/valkey.yaml:7:14: error: the user "root" is of the node itself; write one of the role's own, such as valkey`,
	}},
	{"a user with a blank", []edit{{own, "{name: valkey}", `{name: "a b"}`}}, []string{
		`roles/valkey.yaml:7:14: error: "a b" is not the name of a user; write 1 to 31 lower-case letters, digits, _ and -, the first a letter`,
	}},
	{"the group of a service", []edit{{own, "{name: valkey}", `{name: valkey, groups: [kafka]}`}}, []string{
		`roles/valkey.yaml:7:31: error: the group "kafka" belongs to the service kafka, and its members read what is theirs; remove it`,
	}},
	{"the group root", []edit{{own, "{name: valkey}", `{name: valkey, groups: [dialout, root]}`}}, []string{
		`roles/valkey.yaml:7:40: error: the group "root" belongs to the node itself, and its members read what is theirs; remove it`,
	}},
	{"groups that give more than devices", []edit{{own, "{name: valkey}", `{name: valkey, groups: [dialout, video, i2c, gpio, plugdev, audio, input, render, disk, shadow, tss, sudo, kmem, adm, docker]}`}}, []string{
		`roles/valkey.yaml:7:89: error: members of the group "disk" read and write every disk of the node; remove it, and name under needs what the units need`,
		`roles/valkey.yaml:7:95: error: members of the group "shadow" read the hashes of passwords; remove it, and name under needs what the units need`,
		`roles/valkey.yaml:7:103: error: members of the group "tss" use the TPM, which has the keys of the node; remove it, and name under needs what the units need`,
		`roles/valkey.yaml:7:108: error: members of the group "sudo" can become root; remove it, and name under needs what the units need`,
		`roles/valkey.yaml:7:114: error: members of the group "kmem" read the memory of the kernel; remove it, and name under needs what the units need`,
		`roles/valkey.yaml:7:120: error: members of the group "adm" read the logs of every program; remove it, and name under needs what the units need`,
		`roles/valkey.yaml:7:125: error: members of the group "docker" can become root; remove it, and name under needs what the units need`,
	}},
	{"a user of systemd", []edit{{own, "{name: valkey}", "{name: polkitd}"}}, []string{
		`roles/valkey.yaml:7:14: error: the user "polkitd" is of the node itself; write one of the role's own, such as valkey`,
	}},
	{"a user with the group of disks", []edit{{own, "{name: valkey}", "{name: disk}"}}, []string{
		`roles/valkey.yaml:7:14: error: the user "disk" is of the node itself; write one of the role's own, such as valkey`,
	}},

	// Directories.
	{"a directory of a service", []edit{{own, "path: /var/lib/valkey", "path: /var/lib/kafka/valkey"}}, []string{
		`roles/valkey.yaml:10:12: error: the path "/var/lib/kafka/valkey" is not free: /var/lib/kafka belongs to the service kafka; write one such as /var/lib/valkey`,
	}},
	{"a directory above one of a service", []edit{{own, "path: /var/lib/valkey", "path: /var/lib/spore"}}, []string{
		`roles/valkey.yaml:10:12: error: the path "/var/lib/spore" is not free: it belongs to the node; write one such as /var/lib/valkey`,
	}},
	{"a directory in the root", []edit{{own, "path: /var/lib/valkey", "path: /opt/valkey"}}, []string{
		`roles/valkey.yaml:10:12: error: the path "/opt/valkey" is not below /var/lib, /var/cache, /var/log, /var/spool, /var/opt or /run; write one such as /var/lib/valkey`,
	}},
	{"a directory of ours in memory", []edit{{own, "path: /var/lib/valkey", "path: /run/spore-health-zebra"}}, []string{
		`roles/valkey.yaml:10:12: error: the path "/run/spore-health-zebra" is of the node itself, which has directories of this beginning; write one such as /var/lib/valkey`,
	}},
	{"a directory of ours in the cache", []edit{{own, "path: /var/lib/valkey", "path: /var/cache/spore-update/x"}}, []string{
		`roles/valkey.yaml:10:12: error: the path "/var/cache/spore-update/x" is of the node itself, which has directories of this beginning; write one such as /var/lib/valkey`,
	}},
	{"all of /var/lib", []edit{{own, "path: /var/lib/valkey", "path: /var/lib"}}, []string{
		`roles/valkey.yaml:10:12: error: the path "/var/lib" is not below /var/lib, /var/cache, /var/log, /var/spool, /var/opt or /run; write one such as /var/lib/valkey`,
	}},
	{"a directory with dots", []edit{{own, "path: /var/lib/valkey", "path: /var/lib/../../etc"}}, []string{
		`roles/valkey.yaml:10:12: error: "/var/lib/../../etc" is not in its shortest form; write /etc`,
	}},
	{"a directory that is not absolute", []edit{{own, "path: /var/lib/valkey", "path: valkey"}}, []string{
		`roles/valkey.yaml:10:12: error: "valkey" is not an absolute path; write one such as /var/lib/valkey`,
	}},
	{"a directory with a blank", []edit{{own, "path: /var/lib/valkey", `path: "/var/lib/val key"`}}, []string{
		`roles/valkey.yaml:10:12: error: the path "/var/lib/val key" has a character that units read as another; write letters, digits, -, _ and .`,
	}},
	{"a directory twice", []edit{{own, `mode: "0750"}`, "mode: \"0750\"}\n  - {path: /var/lib/valkey}"}}, []string{
		`roles/valkey.yaml:11:12: error: the directory "/var/lib/valkey" exists already, at roles/valkey.yaml:10; remove one`,
	}},
	{"a mode without quotes", []edit{{own, `mode: "0750"}`, "mode: 0750}"}}, []string{
		`roles/valkey.yaml:10:35: error: mode is a number where a text belongs; put it into quotes: "0750"`,
	}},
	{"a mode of letters", []edit{{own, `mode: "0750"}`, "mode: rwx}"}}, []string{
		`roles/valkey.yaml:10:35: error: "rwx" is not a mode; write octal digits in quotes, such as "0750"`,
	}},
	{"a set-uid mode", []edit{{own, `mode: "0750"}`, `mode: "4755"}`}}, []string{
		`roles/valkey.yaml:10:35: error: the mode "4755" gives rights of its owner to whoever starts it; write three digits, such as "0750"`,
	}},
	{"a mode for everybody", []edit{{own, `mode: "0750"}`, `mode: "0777"}`}}, []string{
		`roles/valkey.yaml:10:35: error: the mode "0777" lets everybody write; write one such as "0750"`,
	}},
	{"a directory of another's user", []edit{{own, `mode: "0750"}`, `owner: kafka}`}}, []string{
		`roles/valkey.yaml:10:36: error: the owner "kafka" belongs to the service kafka; write one of the role's own`,
	}},
	{"a group that is not a name", []edit{{own, `mode: "0750"}`, `group: "A"}`}}, []string{
		`roles/valkey.yaml:10:36: error: the group "A" is not a name; write 1 to 31 lower-case letters, digits, _ and -, the first a letter`,
	}},

	// Machines.
	{"memory without a unit", []edit{{own, "memory: 256MiB", "memory: 256M"}}, []string{
		`roles/valkey.yaml:12:9: error: the memory "256M" is not a size; write a number with KiB, MiB, GiB or TiB, such as 64MiB`,
	}},
	{"memory in which nothing runs", []edit{{own, "memory: 256MiB", "memory: 1KiB"}}, []string{
		`roles/valkey.yaml:12:9: error: the memory 1KiB is less than 1MiB; write more`,
	}},
	{"an architecture that there is not", []edit{{own, "memory: 256MiB", "architectures: [x86_64]"}}, []string{
		`roles/valkey.yaml:12:17: error: the architecture "x86_64" is unknown; write amd64 or arm64`,
	}},
	{"another architecture than the image's", []edit{{own, "memory: 256MiB", "architectures: [arm64]"}}, []string{
		`roles/valkey.yaml:12:16: error: the image is for amd64, and the role runs on arm64; add amd64, or remove the role`,
	}},
	{"an architecture twice", []edit{{own, "memory: 256MiB", "architectures: [amd64, amd64]"}}, []string{
		`roles/valkey.yaml:12:24: error: the architecture "amd64" exists already, at roles/valkey.yaml:12; remove one`,
	}},
	{"no architecture", []edit{{own, "memory: 256MiB", "architectures: []"}}, []string{
		`roles/valkey.yaml:12:16: error: there are no architectures, so that no machine could run the role; write amd64 or arm64`,
	}},

	// Ports.
	{"a port out of bounds", []edit{{own, "port: 6379, setting: port, at: node", "port: 66379, at: node"}}, []string{
		`roles/valkey.yaml:15:12: error: the port 66379 is out of bounds; write 1 to 65535`,
		`roles/valkey.yaml:60:16: error: the role has no port 6379 of TCP; write 66379, or declare it under ports`,
	}},
	{"a range that runs back", []edit{{own, "setting: port, at: node", "to: 6000, at: node"}}, []string{
		`roles/valkey.yaml:15:22: error: the last port 6000 is out of bounds; write 6380 to 65535`,
	}},
	{"an unknown protocol", []edit{{own, "at: node", "protocol: sctp"}}, []string{
		`roles/valkey.yaml:15:43: error: the protocol "sctp" is unknown; did you mean "tcp"?`,
	}},
	{"a port nowhere", []edit{{own, "at: node", "at: localhost"}}, []string{
		`roles/valkey.yaml:15:37: error: where the port is "localhost" is unknown; write everywhere, node or loopback`,
	}},
	{"a port for nothing", []edit{{own, ", for: clients of Valkey", `, for: ""`}}, []string{
		`roles/valkey.yaml:15:48: error: what is to be had at the port is empty; write one line`,
	}},
	{"a port for a control character", []edit{{own, ", for: clients of Valkey", `, for: "a\u0085"`}}, []string{
		`roles/valkey.yaml:15:48: error: what is to be had at the port has a control character or ends in \; write one line of words`,
	}},
	{"a port of an unknown setting", []edit{{own, "setting: port", "setting: prot"}}, []string{
		`roles/valkey.yaml:15:27: error: the role has no setting "prot"; did you mean "port"?`,
	}},
	{"a port of another setting", []edit{{own, "setting: port", "setting: save"}}, []string{
		`roles/valkey.yaml:15:27: error: the setting save is of the type duration; declare it with type: port`,
	}},
	{"a port with another default", []edit{{own, "default: 6379", "default: 6380"}}, []string{
		`roles/valkey.yaml:15:12: error: the port is 6379, and the default of the setting port is 6380; write the same number`,
	}},
	{"a port without a default", []edit{{own, "    default: 6379\n", ""}}, []string{
		`roles/valkey.yaml:19:5: error: the setting port gives a port; add default: 6379`,
	}},
	{"a range of a setting", []edit{{own, "setting: port,", "setting: port, to: 6400,"}}, []string{
		`roles/valkey.yaml:15:27: error: a range of ports does not come from a setting; remove setting or to`,
	}},
	{"a port twice", []edit{{own, "for: clients of Valkey}", "for: clients of Valkey}\n  - {port: 6000, to: 6400, for: others}"}}, []string{
		`roles/valkey.yaml:16:12: error: the port 6000/tcp is here twice, first at roles/valkey.yaml:15; remove one`,
	}},

	// Settings.
	{"an unknown type", []edit{{own, "    type: size", "    type: bytes"}}, []string{
		`roles/valkey.yaml:23:11: error: the type "bytes" is unknown; write string, integer, number, boolean, duration, size, address, cidr, port, hostname, path, list, map, object or secret`,
	}},
	{"a default that does not fit", []edit{{own, "default: 64MiB", "default: 64MB"}}, []string{
		`roles/valkey.yaml:24:14: error: the default of maxMemory "64MB" is not a size; write a number with KiB, MiB, GiB or TiB, such as 64MiB`,
	}},
	{"a default that is not among the values", []edit{{own, "default: noeviction", "default: none"}}, []string{
		`roles/valkey.yaml:30:14: error: the default of eviction "none" is unknown; write noeviction, allkeys-lru or volatile-ttl`,
	}},
	{"a key of a type that it has not", []edit{{own, "    default: 60s", "    patern: x\n    default: 60s"}}, []string{
		`roles/valkey.yaml:34:5: error: unknown key "patern"; did you mean "pattern"?`,
	}},
	{"a type in a list", []edit{{own, "password: {type: secret", "password: {type: password"}}, []string{
		`roles/valkey.yaml:45:26: error: the type "password" is unknown; write string, integer, number, boolean, duration, size, address, cidr, port, hostname, path, list, map, object or secret`,
		`roles/valkey.yaml:52:32: error: the setting users is of the type list and names no secret; remove it here, or declare it with type: secret`,
		`roles/valkey/valkey.conf.tmpl:16:32: error: .password is a password and not a secret; declare it with type: secret`,
	}},

	// Files and templates.
	{"a file in the root", []edit{{own, "path: /etc/valkey/valkey.conf", "path: /usr/lib/valkey.conf"}}, []string{
		`roles/valkey.yaml:50:11: error: the path "/usr/lib/valkey.conf" is not below /run, /etc, /var/lib, /var/cache, /var/log, /var/spool or /var/opt; write one such as /run/valkey`,
	}},
	{"a file of the node", []edit{{own, "path: /etc/valkey/valkey.conf", "path: /etc/passwd"}}, []string{
		`roles/valkey.yaml:50:11: error: the path "/etc/passwd" is not free: it belongs to the node; write one such as /run/valkey`,
	}},
	{"a file of systemd", []edit{{own, "path: /etc/valkey/valkey.conf", "path: /etc/systemd/system/x.service"}}, []string{
		`roles/valkey.yaml:50:11: error: the path "/etc/systemd/system/x.service" is not free: /etc/systemd belongs to systemd; write one such as /run/valkey`,
	}},
	{"a file that is a directory", []edit{{own, "path: /etc/valkey/valkey.conf", "path: /var/lib/valkey"}}, []string{
		`roles/valkey.yaml:50:11: error: the path "/var/lib/valkey" is a directory of the role, at roles/valkey.yaml:10; write a name below it`,
	}},
	{"a file twice", []edit{{own, "files:\n", "files:\n  - {path: /etc/valkey/valkey.conf, template: valkey.conf.tmpl, secrets: [valkey-password, settings.users]}\n"}}, []string{
		`roles/valkey.yaml:51:11: error: the file "/etc/valkey/valkey.conf" exists already, at roles/valkey.yaml:49; remove one`,
	}},
	{"a template that there is not", []edit{{own, "template: valkey.conf.tmpl", "template: valkei.conf.tmpl"}}, []string{
		`roles/valkey.yaml:51:15: error: there is no template "valkei.conf.tmpl"; did you mean "valkey.conf.tmpl"?`,
		`roles/valkey/valkey.conf.tmpl:1:1: error: no file of roles/valkey.yaml is made from this template; name it there, or remove it`,
	}},
	{"a template elsewhere", []edit{{own, "template: valkey.conf.tmpl", "template: ../cluster.yaml"}}, []string{
		`roles/valkey.yaml:51:15: error: "../cluster.yaml" is not the name of a template; write one of roles/valkey/ that ends in .tmpl`,
		`roles/valkey/valkey.conf.tmpl:1:1: error: no file of roles/valkey.yaml is made from this template; name it there, or remove it`,
	}},
	{"a template with another ending", []edit{{"roles/valkey/notes.txt", "", "x"}}, []string{
		`roles/valkey/notes.txt:1:1: error: nothing reads this file; templates end in .tmpl`,
	}},
	{"a directory among templates", []edit{{"roles/valkey/more/x.tmpl", "", "x"}}, []string{
		`roles/valkey/more:1:1: error: is a directory; roles/valkey/ holds templates only`,
	}},
	{"a template that does not parse", []edit{{conf, "{{ .Settings.port }}", "{{ .Settings.port }"}}, []string{
		`roles/valkey/valkey.conf.tmpl:3:1: error: the template cannot be read: unexpected "}" in operand`,
	}},
	{"a setting that there is not", []edit{{conf, "{{ .Settings.maxMemory }}", "{{ .Settings.maxMemry }}"}}, []string{
		`roles/valkey/valkey.conf.tmpl:8:23: error: .Settings.maxMemry: there is no setting "maxMemry"; did you mean "maxMemory"?`,
	}},
	{"a secret that the file does not name", []edit{{own, "secrets: [valkey-password, settings.users]", "secrets: [settings.users]"}}, []string{
		`roles/valkey/valkey.conf.tmpl:14:23: error: the file does not name the secret "valkey-password"; add it to its secrets in roles/valkey.yaml`,
	}},
	{"secrets of settings that the file does not name", []edit{{own, "secrets: [valkey-password, settings.users]", "secrets: [valkey-password]"}}, []string{
		`roles/valkey/valkey.conf.tmpl:16:32: error: the file does not name the secrets of the setting users; add settings.users to its secrets in roles/valkey.yaml`,
	}},
	{"a role that there is not", []edit{{conf, `.Members "valkey"`, `.Members "redis"`}}, []string{
		`roles/valkey/valkey.conf.tmpl:18:20: error: there is no role "redis"; write one that nodes can have`,
	}},
	{"a function that there is not", []edit{{conf, "{{ .Settings.port }}", `{{ readFile "/etc/shadow" }}`}}, []string{
		`roles/valkey/valkey.conf.tmpl:3:1: error: the template cannot be read: there is no function "readFile"; there are add, and, authority, base64, default, div, eq, ge, gt, indent, index, join, le, len, lower, lt, mul, ne, not, or, pbkdf2, print, printf, println, quote, replace, secret, secretPath, sha256, slice, split, sub, toJson, toYaml, trim, upper`,
	}},
	{"a template with a literal password", []edit{{conf, "daemonize no", "daemonize no\npassword = hunter2"}}, []string{
		`roles/valkey/valkey.conf.tmpl:6:1: error: this line holds a literal secret; it would be readable in every image, also in a comment: put it into the bundle and write {{secret "NAME"}}`,
	}},
	{"a template with a bell", []edit{{conf, "daemonize no", "daemonize \ano"}}, []string{
		`roles/valkey/valkey.conf.tmpl:5:11: error: the control character 0x07 does not belong in a template; remove it`,
	}},
	{"a template of a MiB", []edit{{conf, "daemonize no", strings.Repeat("# a line of a comment\n", 50_000)}}, []string{
		`roles/valkey/valkey.conf.tmpl:1:1: error: the template has 1100680 bytes; at most 262144 are read`,
	}},
	{"a template that nothing is made from", []edit{{"roles/valkey/more.tmpl", "", "x"}}, []string{
		`roles/valkey/more.tmpl:1:1: error: no file of roles/valkey.yaml is made from this template; name it there, or remove it`,
	}},

	// Secrets.
	{"a file with a secret that there is not", []edit{{own, "[valkey-password, settings.users]", "[valkey-password, settings.users, license]"}}, []string{
		`roles/valkey.yaml:52:48: error: the role has no secret "license"; write valkey-password or settings.users`,
	}},
	{"secrets of a setting without any", []edit{{own, "[valkey-password, settings.users]", "[valkey-password, settings.users, settings.port]"}}, []string{
		`roles/valkey.yaml:52:48: error: the setting port is of the type port and names no secret; remove it here, or declare it with type: secret`,
	}},
	{"a secret twice", []edit{{own, "[valkey-password, settings.users]", "[valkey-password, settings.users, valkey-password]"}}, []string{
		`roles/valkey.yaml:52:48: error: the secret "valkey-password" exists already, at roles/valkey.yaml:52; remove one`,
	}},
	{"a certificate without its ending", []edit{
		{own, "[valkey-password, settings.users]", "[valkey-password, settings.users, valkey-tls]"}, {own, "{length: 32}", "{length: 32}\n  valkey-tls: {certificate: {}}"},
	}, []string{
		`roles/valkey.yaml:52:48: error: the secret valkey-tls is a certificate; write valkey-tls-certificate and valkey-tls-key`,
	}},
	{"a file that everybody may read", []edit{{own, "    template: valkey.conf.tmpl\n", "    template: valkey.conf.tmpl\n    mode: \"0644\"\n"}}, []string{
		`roles/valkey.yaml:52:11: error: the file holds secrets, and the mode "0644" lets everybody read them; write "0640"`,
	}},
	{"a secret with a capital", []edit{{own, "{length: 32}", "{length: 32}\n  License: {given: true}"}}, []string{
		`roles/valkey.yaml:56:12: error: "License" is not the name of a secret; write 1 to 50 lower-case letters, digits and -, such as valkey-password`,
	}},
	{"a secret that can be guessed", []edit{{own, "{length: 32}", "{length: 4, alphabet: digits}"}}, []string{
		`roles/valkey.yaml:55:20: error: a secret of 4 characters can be guessed; write length: 20 or more`,
	}},
	{"a secret of no characters", []edit{{own, "{length: 32}", "{length: 0}"}}, []string{
		`roles/valkey.yaml:55:29: error: the length 0 is out of bounds; write 1 to 256`,
	}},
	{"an alphabet that there is not", []edit{{own, "{length: 32}", "{alphabet: base64}"}}, []string{
		`roles/valkey.yaml:55:31: error: the alphabet "base64" is unknown; write alphanumeric, digits, hex or lowercase`,
	}},
	{"a secret that is brought and made", []edit{{own, "{length: 32}", "{length: 32, given: true}"}}, []string{
		`roles/valkey.yaml:55:20: error: the secret valkey-password is one that the operator brings; remove length and alphabet`,
	}},
	{"a certificate of 32 characters", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {length: 32, certificate: {}}"}}, []string{
		`roles/valkey.yaml:56:8: error: the secret tls is a certificate, which the role's authority makes; remove length, alphabet and given`,
	}},
	{"a certificate for a name that is none", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {names: [\"a b\"]}}"}}, []string{
		`roles/valkey.yaml:56:31: error: "a b" is neither a DNS name nor an address; write one such as valkey.{domain} or 10.77.0.5`,
	}},
	{"a certificate with an unknown word", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {names: [\"valkey.{domian}\"]}}"}}, []string{
		`roles/valkey.yaml:56:31: error: the word "{domian}" is unknown; did you mean "{domain}"?`,
	}},
	{"a certificate of another's authority", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {authority: mqtt}}"}}, []string{
		`roles/valkey.yaml:56:8: error: the authority "mqtt" belongs to the service mqtt; write one of the role's own, such as authority: valkey-ca`,
	}},
	{"a certificate of the root", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {authority: root}}"}}, []string{
		`roles/valkey.yaml:56:8: error: the authority "root" belongs to the node itself; write one of the role's own, such as authority: valkey-ca`,
	}},
	{"a certificate for nobody", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {usage: [mail]}}"}}, []string{
		`roles/valkey.yaml:56:31: error: the usage "mail" is unknown; write server or client`,
	}},
	{"a secret of a service", []edit{{own, "{length: 32}", "{length: 32}\n  etcd-encryption-key: {}"}}, []string{
		`roles/valkey.yaml:56:24: error: the secret "etcd-encryption-key" belongs to the service kubernetes; write another name, such as valkey-etcd-encryption-key`,
	}},
	{"a signal that ends a program", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {signal: KILL}}"}}, []string{
		`roles/valkey.yaml:56:31: error: the signal "KILL" is unknown; write HUP, USR1 or USR2`,
	}},
	{"a signal for one of two certificates", []edit{{own, "{length: 32}", "{length: 32}\n  a: {certificate: {signal: HUP}}\n  b: {certificate: {}}"}}, []string{
		`roles/valkey.yaml:57:20: error: another certificate of the role has signal: HUP, and this one has no signal: all units read all of them; write the same signal for each`,
	}},
	{"a certificate in a file that a signal does not make again", []edit{
		{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {signal: HUP}}"}, {own, "[valkey-password, settings.users]", "[valkey-password, settings.users, tls-key]"},
		{conf, "requirepass", "# {{ secret \"tls-key\" }}\nrequirepass"},
	}, []string{
		`roles/valkey/valkey.conf.tmpl:14:13: error: at the signal HUP the units read a new certificate, and this file is made at their start alone; write the path: {{secretPath "tls-key"}}`,
	}},
	{"users of one name", []edit{{own, "    max: 100\n", "    max: 100\n    unique: nmae\n"}}, []string{
		`roles/valkey.yaml:40:13: error: the entries of users have no key "nmae"; did you mean "name"?`,
	}},
	{"a certificate that is a secret too", []edit{{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {}}\n  tls-key: {}"}}, []string{
		`roles/valkey.yaml:56:8: error: the certificate tls makes the entry "tls-key" of the bundle, which is a secret of the role too; write another name`,
	}},

	// What changes on a running node, health and tests.
	{"a live setting that there is not", []edit{{own, "settings: [maxMemory,", "settings: [maxMemry,"}}, []string{
		`roles/valkey.yaml:58:17: error: the role has no setting "maxMemry"; did you mean "maxMemory"?`,
	}},
	{"a live setting twice", []edit{{own, "settings: [maxMemory,", "settings: [maxMemory, maxMemory,"}}, []string{
		`roles/valkey.yaml:58:28: error: the setting maxMemory is here twice, first at roles/valkey.yaml:58; write one entry with all units`,
	}},
	{"no live settings", []edit{{own, "settings: [maxMemory, eviction, save, users]", "settings: []"}}, []string{
		`roles/valkey.yaml:58:16: error: there are no settings; write those that a running node takes at once`,
	}},
	{"no unit to restart", []edit{{own, "restart: [valkey-server.service]", "restart: []"}}, []string{
		`roles/valkey.yaml:58:61: error: there are no units; write those that are started again: valkey-server.service`,
	}},
	{"a restart of a unit that it has not", []edit{{own, "restart: [valkey-server.service]", "restart: [kafka.service]"}}, []string{
		`roles/valkey.yaml:58:62: error: the unit "kafka.service" is unknown; write valkey-server.service`,
	}},
	{"no question about health", []edit{{own, "health: {port: 6379}", "health: {}"}}, []string{
		`roles/valkey.yaml:60:9: error: health has 0 questions; write one of port, command, http and journal`,
	}},
	{"two questions about health", []edit{{own, "health: {port: 6379}", "health: {port: 6379, journal: x}"}}, []string{
		`roles/valkey.yaml:60:9: error: health has 2 questions; write one of port, command, http and journal`,
	}},
	{"the health of another port", []edit{{own, "health: {port: 6379}", "health: {port: 6380}"}}, []string{
		`roles/valkey.yaml:60:16: error: the role has no port 6380 of TCP; write 6379, or declare it under ports`,
	}},
	{"a request without a slash", []edit{{own, "health: {port: 6379}", "health: {http: {port: 6379, path: healthz}}"}}, []string{
		`roles/valkey.yaml:60:35: error: "healthz" is not the path of a request; write one such as /healthz`,
	}},
	{"a request that nobody can send", []edit{{own, "health: {port: 6379}", "health: {http: {port: 6379, path: /%zz}}"}}, []string{
		`roles/valkey.yaml:60:35: error: "/%zz" is not the path of a request; write one such as /healthz`,
	}},
	{"a status that HTTP has not", []edit{{own, "health: {port: 6379}", "health: {http: {port: 6379, path: /healthz, status: 20}}"}}, []string{
		`roles/valkey.yaml:60:53: error: the status 20 is out of bounds; write 100 to 599`,
	}},
	{"a line of the journal that is none", []edit{{own, "health: {port: 6379}", "health: {journal: \"a(\"}"}}, []string{
		`roles/valkey.yaml:60:19: error: "a(" is not a regular expression of at most 200 bytes; write it as RE2 has it, such as Ready to accept connections`,
	}},
	{"a command of nobody", []edit{{own, "health: {port: 6379}", "health: {command: [valkey-cli, ping]}"}, {own, "user: {name: valkey}\n", ""}}, []string{
		`roles/valkey.yaml:59:19: error: the command runs as the user of the role, which names none; write user: {name: valkey}, or ask by port, http or journal`,
	}},
	{"a command in one text", []edit{{own, "health: {port: 6379}", "health: {command: [\"valkey-cli ping\"]}"}}, []string{
		`roles/valkey.yaml:60:20: error: "valkey-cli ping" is not a program; write its name or its path, and each argument as an entry of its own`,
	}},

	{"a test without a command", []edit{{own, "health:", "tests: [{expect: PONG}, {command: []}]\nhealth:"}}, []string{
		`roles/valkey.yaml:60:9: error: the key "command" is missing; add it and write [] for an empty list`,
		`roles/valkey.yaml:60:35: error: the command is empty; write the program and its arguments, such as [valkey-cli, ping]`,
	}},
	{"a test of nobody", []edit{{own, "health:", "tests: [{command: [valkey-cli, ping]}]\nhealth:"}, {own, "user: {name: valkey}\n", ""}}, []string{
		`roles/valkey.yaml:59:19: error: the command runs as the user of the role, which names none; write user: {name: valkey}, or remove the tests`,
	}},
	{"a test of root", []edit{{own, "health:", "tests: [{command: [valkey-cli, ping]}]\nhealth:"}, {own, "user: {name: valkey}\n", "needs: {root: true}\n"}}, []string{
		`roles/valkey.yaml:60:19: error: a role that needs root can have no tests and no health command, since they run as its user, which it has not; take root out of needs and write user: {name: valkey}, or remove the tests`,
	}},
	{"a health command of root", []edit{{own, "health: {port: 6379}", "health: {command: [valkey-cli, ping]}"}, {own, "user: {name: valkey}\n", "needs: {root: true}\n"}}, []string{
		`roles/valkey.yaml:60:19: error: a role that needs root can have no tests and no health command, since they run as its user, which it has not; take root out of needs and write user: {name: valkey}, or ask by port, http or journal`,
	}},
	{"a test that expects nothing", []edit{{own, "health:", "tests: [{command: [valkey-cli, ping], expect: \"\"}]\nhealth:"}}, []string{
		`roles/valkey.yaml:60:47: error: the text that is expected has 0 bytes; write 1 to 200 that the command prints`,
	}},
	{"a test in one text", []edit{{own, "health:", "tests: [{command: [valkey-cli ping]}]\nhealth:"}}, []string{
		`roles/valkey.yaml:60:20: error: "valkey-cli ping" is not a program; write its name or its path, and each argument as an entry of its own`,
	}},
	{"a test that is a program of its own", []edit{{own, "health:", "tests: [{command: [sh, -c, \"" + strings.Repeat("x", 5000) + "\"]}]\nhealth:"}}, []string{
		`roles/valkey.yaml:60:19: error: the command has 5006 bytes; at most 4096 are run: lay a script into programs/`,
	}},
	{"too many tests", []edit{{own, "health:", "tests: [" + strings.Repeat("{command: [a]}, ", 21) + "]\nhealth:"}}, []string{
		`roles/valkey.yaml:60:8: error: the role has 21 tests; at most 20 are run`,
	}},

	// Quotas of directories.
	{"a quota that is not a size", []edit{{own, `mode: "0750"}`, "quota: much}"}}, []string{
		`roles/valkey.yaml:10:36: error: the quota "much" is not a size; write a number with KiB, MiB, GiB or TiB, such as 64MiB`,
	}},
	{"a quota of nothing", []edit{{own, `mode: "0750"}`, "quota: 512KiB}"}}, []string{
		`roles/valkey.yaml:10:36: error: the quota 512KiB is less than 1MiB; write more`,
	}},
	{"a quota in memory", []edit{{own, `mode: "0750"}`, "mode: \"0750\"}\n  - {path: /run/valkey, quota: 2MiB}"}}, []string{
		`roles/valkey.yaml:11:32: error: a quota is for what is on the state partition, and "/run/valkey" is in memory; write a path below /var/lib, or remove the quota`,
	}},
	{"a quota of who is held to none", []edit{{own, `mode: "0750"}`, "quota: 2GiB}"}, {own, "health:", "needs: {capabilities: [CAP_SYS_RESOURCE]}\nhealth:"}}, []string{
		`roles/valkey.yaml:10:36: error: no quota holds a program with CAP_SYS_RESOURCE (needs); remove the capability or the quota`,
	}},
	{"a quota of root", []edit{{own, `mode: "0750"}`, "quota: 2GiB}"}, {own, "user: {name: valkey}\n", ""}, {own, "health:", "needs: {root: true}\nhealth:"}}, []string{
		`roles/valkey.yaml:9:36: error: the role needs root (needs), which no quota holds; write user: {name: valkey} in its place, or remove the quota`,
	}},
	{"a quota in a quota", []edit{{own, `mode: "0750"}`, "quota: 2GiB}\n  - {path: /var/lib/valkey/cache, quota: 1GiB}"}}, []string{
		`roles/valkey.yaml:11:42: error: the directory "/var/lib/valkey/cache" lies in "/var/lib/valkey", which has a quota (roles/valkey.yaml:10), and its files count for one of both; remove a quota`,
	}},

	// Keys that nothing would hold a role to.
	{"a key for disks that there is not", []edit{{own, "memory: 256MiB", "disk: valkey"}}, []string{
		`roles/valkey.yaml:12:1: error: unknown key "disk"; did you mean "disks"?`,
	}},
	{"a disk that no node has", []edit{{own, "memory: 256MiB", "disks: {use: valkey, at: /var/lib/valkey/disks}"}, listed, onEdge, valued}, []string{
		`cluster.yaml:41:12: error: node edge-01 has the role valkey, which asks for a disk, and no disk for it; write nodes/edge-01.yaml with disks: [{use: valkey, selector: {serial: …}}]`,
	}},
	{"disks of another use", []edit{{own, "memory: 256MiB", "disks: {use: kafka, at: /var/lib/valkey/disks}"}, disk, listed, onEdge, valued}, []string{
		`roles/valkey.yaml:12:14: error: the use of the disks is "kafka"; write the name of the role: valkey`,
	}},
	{"disks of nobody", []edit{{own, "memory: 256MiB", "disks: {use: valkey, at: /var/lib/valkey/disks}"}, {own, "user: {name: valkey}\n", ""}, disk, listed, onEdge, valued}, []string{
		`roles/valkey.yaml:11:8: error: what is on the disks belongs to the user of the role, which names none; write user: {name: valkey}`,
	}},
	{"disks in the directory of another", []edit{{own, "memory: 256MiB", "disks: {use: valkey, at: /var/lib/kafka/x}"}, disk, listed, onEdge, valued}, []string{
		`roles/valkey.yaml:12:26: error: the path "/var/lib/kafka/x" is not free: /var/lib/kafka belongs to the service kafka; write one such as /var/lib/valkey`,
	}},
	{"disks where the role has a directory", []edit{{own, "memory: 256MiB", "disks: {use: valkey, at: /var/lib/valkey}"}, disk, listed, onEdge, valued}, []string{
		`roles/valkey.yaml:12:26: error: the disks are mounted in "/var/lib/valkey", and roles/valkey.yaml:10 has the directory "/var/lib/valkey"; write another path, such as /var/lib/valkey-disks`,
	}},
	{"disks in memory", []edit{{own, "memory: 256MiB", "disks: {use: valkey, at: /run/valkey/disks}"}, disk, listed, onEdge, valued}, []string{
		`roles/valkey.yaml:12:26: error: the path "/run/valkey/disks" is not below /var/lib; write one such as /var/lib/valkey`,
	}},
	{"disks in a directory that nobody makes", []edit{{own, "memory: 256MiB", "disks: {use: valkey, at: /var/lib/other/disks}"}, disk, listed, onEdge, valued}, []string{
		`roles/valkey.yaml:12:26: error: the path "/var/lib/other/disks" is neither in /var/lib nor in a directory of the role there; write one such as /var/lib/valkey-disks`,
	}},
	{"a disk for a role that the node has not", []edit{{own, "memory: 256MiB", "disks: {use: valkey, at: /var/lib/valkey/disks}"}, disk, listed, onEdge, valued, {"nodes/master-01.yaml", "", "node: master-01\ndisks: [{use: valkey, selector: {serial: V2}}]\n"}}, []string{
		`nodes/master-01.yaml:2:15: error: the disk is for valkey, but node master-01 has no role valkey; add the role in cluster.yaml or remove the disk`,
	}},
	{"disks of a role without them", []edit{disk}, []string{
		`nodes/edge-01.yaml:2:15: error: the use of a disk "valkey" is unknown; write state, osd, kafka, metrics or logs`,
	}},

	// Needs.
	{"a user and root", []edit{{own, "health:", "needs: {root: true}\nhealth:"}}, []string{
		`roles/valkey.yaml:60:15: error: the units run as the user valkey, and as root: both cannot be; remove user, or name under capabilities what they need`,
	}},
	{"a capability that there is not", []edit{{own, "health:", "needs: {capabilities: [net_admin]}\nhealth:"}}, []string{
		`roles/valkey.yaml:60:24: error: "net_admin" is not a capability; write one of capabilities(7), such as CAP_NET_BIND_SERVICE`,
	}},
	{"a family that there is not", []edit{{own, "health:", "needs: {sockets: [can]}\nhealth:"}}, []string{
		`roles/valkey.yaml:60:19: error: "can" is not a family of sockets; write one such as AF_CAN or AF_PACKET`,
	}},
	{"a device elsewhere", []edit{{own, "health:", "needs: {devices: [/sys/x]}\nhealth:"}}, []string{
		`roles/valkey.yaml:60:19: error: "/sys/x" is not a device; write one such as /dev/ttyS0, or a kind such as char-ttyUSB`,
	}},
	{"a call with a blank", []edit{{own, "health:", "needs: {systemCalls: [\"@mount @reboot\"]}\nhealth:"}}, []string{
		`roles/valkey.yaml:60:23: error: "@mount @reboot" is not a system call or a group of them; write one such as mlock or @mount`,
	}},
	{"a path of another that it writes", []edit{{own, "health:", "needs: {write: [/var/lib/kafka]}\nhealth:"}}, []string{
		`roles/valkey.yaml:60:17: error: the path "/var/lib/kafka" is not free: it belongs to the service kafka; write one such as /run/valkey`,
	}},

	// What another role has.
	{"all that another role has", []edit{{"roles/zebra.yaml", "", `description: x
units: [valkey-server.service]
user: {name: valkey}
directories: [{path: /var/lib/valkey/x}]
secrets: {valkey-password: {}}
`}}, []string{
		`roles/zebra.yaml:2:9: error: the unit "valkey-server.service" belongs to the role valkey (roles/valkey.yaml:4); write a unit of the role's own`,
		`roles/zebra.yaml:3:14: error: the user "valkey" belongs to the role valkey (roles/valkey.yaml:4); write one of the role's own, such as zebra`,
		`roles/zebra.yaml:4:22: error: the path "/var/lib/valkey/x" is not free: /var/lib/valkey belongs to the role valkey (roles/valkey.yaml:4); write one such as /var/lib/zebra`,
		`roles/zebra.yaml:5:28: error: the secret "valkey-password" belongs to the role valkey (roles/valkey.yaml:4); write another name, such as zebra-valkey-password`,
	}},
	{"the authority of another role", []edit{
		{own, "{length: 32}", "{length: 32}\n  tls: {certificate: {}}"},
		{"roles/zebra.yaml", "", "description: x\nunits: [x.service]\nsecrets: {x: {certificate: {authority: valkey}}}\n"},
	}, []string{
		`roles/zebra.yaml:3:14: error: the authority "valkey" belongs to the role valkey (roles/valkey.yaml:4); write one of the role's own, such as authority: zebra-ca`,
	}},
}

func TestBadDefinitions(t *testing.T) {
	for _, tc := range badDefinitions {
		t.Run(tc.name, func(t *testing.T) {
			files := ownRole(t)
			apply(t, files, tc.edits)
			_, report := Check(files, Options{})
			require.Equal(t, strings.Join(tc.want, "\n")+"\n", serious(report))
		})
	}
}

func TestATimerOfARoleMayNameItsOwnService(t *testing.T) {
	files := ownRole(t)
	apply(t, files, []edit{
		{"roles/job.yaml", "", "description: x\nunits: [job.timer, job@daily.timer, ask.socket]\n"},
		{"units/job.service", "", "[Service]\nExecStart=/usr/bin/true\n"}, {"units/job.timer", "", "[Timer]\nOnCalendar=daily\nUnit=\nUnit=job.service\n"},
		{"units/job@.service", "", "[Service]\nExecStart=/usr/bin/true\n"}, {"units/job@.timer", "", "[Timer]\nOnCalendar=%i\nUnit=job@%i.service\n"},
		{"units/ask.service", "", "[Service]\nExecStart=/usr/bin/true\n"}, {"units/ask.socket", "", "[Socket]\nListenStream=/run/job\nAccept=no\nService=ask.service\n"},
		{"units/other.timer", "", "[Timer]\nOnCalendar=daily\nUnit=job.service\n"},
	})
	_, report := Check(files, Options{})
	require.Empty(t, serious(report), "a timer of no role has no hardening of it")
}

func TestARoleMayHaveWhatAServiceHasThatIsOff(t *testing.T) {
	files := ownRole(t)
	apply(t, files, []edit{
		{own, "user: {name: valkey}", "user: {name: mosquitto}"}, {own, "/var/lib/valkey", "/var/lib/mosquitto"}, {own, "[valkey-server.service]", "[mosquitto.service]"},
		{own, "restart: [valkey-server.service]", "restart: [mosquitto.service]"},
	})
	_, report := Check(files, Options{})
	require.Equal(t, []string{
		`error: the unit "mosquitto.service" belongs to the service mqtt; write a unit of the role's own`,
		`error: the user "mosquitto" belongs to the service mqtt; write one of the role's own, such as valkey`,
		`error: the path "/var/lib/mosquitto" is not free: it belongs to the service mqtt; write one such as /var/lib/valkey`,
	}, messages(report))
	text := string(files["cluster.yaml"].Data)
	require.Contains(t, text, "mqtt")
	c, _ := Load(files)
	c.Cluster.Services = nil
	for i := range c.Cluster.Nodes {
		c.Cluster.Nodes[i].Roles = nil
	}
	for _, p := range Validate(c, Options{}) {
		require.NotContains(t, p.File, "roles/", p.String())
	}
}

func TestARoleMayStartAServiceOfOursThatIsOff(t *testing.T) {
	files := ownRole(t)
	files["roles/backup.yaml"] = &fstest.MapFile{Data: []byte("description: x\nunits: [etcd-snapshot.timer, mosquitto.service]\n")}
	c, _ := Load(files)
	c.Cluster.Services = nil
	for i := range c.Cluster.Nodes {
		c.Cluster.Nodes[i].Roles = nil
	}
	for _, p := range Validate(c, Options{}) {
		require.NotContains(t, p.File, "roles/", p.String())
	}
}

func TestPathsOfTheSystemAreNoRoles(t *testing.T) {
	role := func(key, p string) string {
		files := ownRole(t)
		entry := "{path: " + p + "}"
		if key == "files" {
			entry = "{path: " + p + ", template: x.tmpl}"
			files["roles/xx/x.tmpl"] = &fstest.MapFile{Data: []byte("x")}
		}
		if key == "write" {
			key, entry = "needs: {write", p+"]}#"
		}
		files["roles/xx.yaml"] = &fstest.MapFile{Data: []byte("description: x\nunits: [xx.service]\n" + key + ": [" + entry + "]\n")}
		_, report := Check(files, Options{})
		return serious(report)
	}
	for key, paths := range map[string][]string{
		"directories": {
			"/run/dbus", "/run/lock", "/run/log", "/run/user/0", "/run/mount", "/run/cryptsetup", "/run/cni", "/run/cni/net.d", "/run/calico",
			"/run/ceph-osd/1", "/run/tmpfiles.d", "/run/spore-push", "/run/systemd/system", "/var/lib/private", "/var/lib/private/x",
			"/var/lib/calico", "/var/lib/etcd-snapshots", "/var/lib/dpkg", "/var/cache/private", "/var/log/kubernetes", "/var/log/pods",
			"/var/log/private", "/var/spool/cron", "/etc/xx",
		},
		"files": {
			"/etc/ld.so.preload", "/etc/os-release", "/etc/shadow-", "/etc/sysctl.d/x.conf", "/etc/pam.d/x", "/etc/nsswitch.conf",
			"/etc/ssl/certs/x.pem", "/etc/credstore/x", "/etc/credstore.encrypted/x", "/etc/default/locale", "/etc/default/x/xx",
			"/etc/systemd/network/x", "/etc/kubernetes/manifests/x.yaml", "/etc/cni/net.d/x", "/etc/mosquitto/conf", "/etc/xx.conf", "/etc/security/limits",
			"/run/tmpfiles.d/x.conf", "/run/cni/x", "/run/nologin", "/var/lib/private/x", "/var/log/wtmp",
		},
		"write": {"/etc/ssl", "/etc/pam.d", "/etc/ld.so.preload", "/etc/passwd", "/etc/default", "/run/dbus", "/var/lib/dpkg"},
	} {
		for _, p := range paths {
			require.Contains(t, role(key, p), "roles/xx.yaml:3:", "%s %s", key, p)
		}
	}
	for key, paths := range map[string][]string{
		"directories": {"/run/xx", "/run/xx/a", "/var/lib/xx", "/var/cache/xx", "/var/log/xx", "/var/spool/xx", "/var/opt/xx", "/var/lib/dbus-broker"},
		"files":       {"/etc/xx/xx.conf", "/etc/xx/conf.d/a", "/etc/x-x/a", "/etc/default/xx", "/run/xx", "/run/xx/a.conf", "/var/lib/xx/a"},
		"write":       {"/etc/xx", "/var/lib/xx", "/run/xx"},
	} {
		for _, p := range paths {
			require.Empty(t, role(key, p), "%s %s", key, p)
		}
	}
}

func TestTooManyRolesAndTemplates(t *testing.T) {
	files := ownRole(t)
	for i := range 101 {
		files[fmt.Sprintf("roles/r%d.yaml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "description: x\nunits: [r%d.service]\n", i)}
		files[fmt.Sprintf("roles/valkey/t%d.tmpl", i)] = &fstest.MapFile{Data: []byte("x")}
	}
	_, report := Load(files)
	require.Contains(t, serious(report), "roles:1:1: error: holds 102 roles; at most 100 are read\n")
	delete(files, "roles/r0.yaml")
	delete(files, "roles/r1.yaml")
	_, report = Load(files)
	require.Equal(t, "roles/valkey:1:1: error: holds 102 templates; at most 100 are read\n", serious(report))
}

// FuzzDefinition replaces the file of a role, or its template: no panic, and every problem has a place.
func FuzzDefinition(f *testing.F) {
	good := ownRole(f)
	f.Add(string(good[own].Data), string(good[conf].Data))
	for _, tc := range badDefinitions {
		files := ownRole(f)
		apply(f, files, tc.edits)
		f.Add(string(files[own].Data), string(files[conf].Data))
	}
	f.Fuzz(func(t *testing.T, definition, template string) {
		files := fstest.MapFS{own: {Data: []byte(definition)}, conf: {Data: []byte(template)}, "cluster.yaml": good["cluster.yaml"]}
		c, report := Check(files, Options{})
		for _, p := range report {
			require.NotEmpty(t, p.Message)
			require.NotContains(t, p.Message, "\n")
			require.Positive(t, p.Line)
			require.Positive(t, p.Column)
		}
		for _, d := range c.Roles { // Whatever is wrong with one, others ask for its row.
			require.Equal(t, d.Name, d.Service().Name)
			text, err := json.Marshal(d)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, new(role.Definition)))
			if !report.Failed() {
				require.NotContains(t, unit.Target(d)+unit.Sysusers(d)+unit.Tmpfiles(d), "\r")
				require.Len(t, unit.DropIns(d), len(d.Units)+len(d.Triggered()))
			}
		}
	})
}
