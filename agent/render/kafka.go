package render

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/facts"
	"spore/services/service"
)

// Names of Kafka's listeners.
const (
	kafkaClient     = "CLIENT"
	kafkaBroker     = "BROKER"
	kafkaController = "CONTROLLER"
)

// Ports of Kafka's listeners: of clients (SCRAM over TLS), of brokers, and of controllers (both by certificates).
const (
	KafkaClientPort     = service.PortKafkaClient
	KafkaBrokerPort     = service.PortKafkaBroker
	KafkaControllerPort = service.PortKafkaController
)

const (
	// KafkaMetadata holds the metadata log, on the state partition whatever the data disks are.
	KafkaMetadata = "/var/lib/kafka/metadata"
	// kafkaData is the log directory of a broker without data disks.
	kafkaData = "/var/lib/kafka/data"
	// kafkaDisks holds the mount points of data disks by their numbers.
	kafkaDisks = "/var/lib/kafka/disks"
	// KafkaArchives is where the JVM keeps classes as it has parsed them.
	KafkaArchives = "/var/lib/kafka/cds"
	// kafkaHome is the payload.
	kafkaHome = "/usr/share/kafka"
	// KafkaJars matches what the program is.
	KafkaJars = kafkaHome + "/libs/*.jar"
	// KafkaAdmin is the user who may do everything.
	KafkaAdmin = "admin"
	// kafkaOrganization is the organization in the certificates of brokers and controllers (package pki).
	kafkaOrganization = "spore:kafka-brokers"
)

// kafkaMostCleaner is the cleaner's buffer in MiB that is Kafka's own default. It is touched at the start.
const kafkaMostCleaner = 128

// kafka renders server.properties, the key store, and arguments of the JVM.
func kafka(in Input) (map[string]File, error) {
	if in.Cluster.Services.Kafka() == nil {
		return nil, errors.New("the cluster has no kafka settings; add services/kafka.yaml")
	}
	certificate, err := in.Secret("kafka-broker-certificate")
	if err != nil {
		return nil, fmt.Errorf("certificate of the listeners: %w", err)
	}
	key, err := in.Secret("kafka-broker-key")
	if err != nil {
		return nil, fmt.Errorf("key of the listeners: %w", err)
	}
	properties, err := kafkaProperties(in)
	if err != nil {
		return nil, err
	}
	return map[string]File{
		"server.properties": {Data: properties, Mode: 0o600},
		// Kafka wants the key and the chain in one file (KIP-651).
		"keystore.pem": {Data: slices.Concat(bytes.TrimSpace(key), []byte("\n"), bytes.TrimSpace(certificate), []byte("\n")), Mode: 0o600},
		"jvm.args":     {Data: kafkaJVM(), Mode: 0o600},
		// For root's use of Kafka's tools on the node, as the node.
		"client.properties": {Data: kafkaClientProperties(in.Dir), Mode: 0o600},
	}, nil
}

// kafkaProperties are for one program that is broker, controller or both.
func kafkaProperties(in Input) ([]byte, error) {
	c := in.Cluster
	broker, controller := slices.Contains(c.KafkaBrokers(), in.Node.Name), slices.Contains(c.KafkaControllers(), in.Node.Name)
	if !broker && !controller {
		return nil, errors.New("this node has none of the roles kafka-broker and kafka-controller")
	}
	own, err := nodeAddress(in)
	if err != nil {
		return nil, err
	}
	quorum, err := kafkaQuorum(in)
	if err != nil {
		return nil, err
	}

	var b bytes.Buffer
	set := func(key string, value any) { fmt.Fprintf(&b, "%s=%v\n", key, value) }
	var processes, listeners, advertised []string
	if broker {
		processes = append(processes, "broker")
		// Clients may come by any address of the node; what they are told then is the one that all certificates are for.
		listeners = append(listeners, kafkaClient+"://:"+strconv.Itoa(KafkaClientPort), kafkaBroker+"://"+hostPort(own, KafkaBrokerPort))
		advertised = append(advertised, kafkaClient+"://"+hostPort(own, KafkaClientPort), kafkaBroker+"://"+hostPort(own, KafkaBrokerPort))
	}
	if controller {
		processes = append(processes, "controller")
		listeners = append(listeners, kafkaController+"://"+hostPort(own, KafkaControllerPort))
		advertised = append(advertised, kafkaController+"://"+hostPort(own, KafkaControllerPort))
	}
	set("process.roles", strings.Join(processes, ","))
	set("node.id", facts.KafkaID(in.Node.Name))
	if in.Node.Rack != "" {
		set("broker.rack", in.Node.Rack)
	}
	set("listeners", strings.Join(listeners, ","))
	set("advertised.listeners", strings.Join(advertised, ","))
	set("listener.security.protocol.map", kafkaClient+":SASL_SSL,"+kafkaBroker+":SSL,"+kafkaController+":SSL")
	if broker {
		set("inter.broker.listener.name", kafkaBroker)
	}
	set("controller.listener.names", kafkaController)
	set("controller.quorum.bootstrap.servers", strings.Join(quorum, ","))
	if controller {
		// A controller whose data was lost takes the place of its former self, and a new one joins (KIP-1186).
		set("controller.quorum.auto.join.enable", true)
		// While nothing happens the active controller writes a record that says so, and has it on the disk: twice a second by itself.
		set("metadata.max.idle.interval.ms", 5000)
	}

	kafkaSecurity(in.Dir, set)
	kafkaStorage(in, set, broker)
	if heap := c.KafkaHeap(in.Memory); heap != 0 {
		set("log.cleaner.dedupe.buffer.size", min(heap/64, kafkaMostCleaner)<<20)
	}
	return b.Bytes(), nil
}

// kafkaQuorum lists the controllers' listeners, in the order of the controllers' names.
func kafkaQuorum(in Input) ([]string, error) {
	role := facts.KafkaController
	if len(in.Cluster.Members[role]) == 0 {
		role = facts.KafkaBroker
	}
	members, err := membersOf(in, role)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range members {
		out = append(out, hostPort(m.Addr, KafkaControllerPort))
	}
	return out, nil
}

// kafkaSecurity says who may connect, as whom, and who may do everything.
func kafkaSecurity(dir string, set func(string, any)) {
	kafkaTLS(dir, set)
	client := "listener.name." + strings.ToLower(kafkaClient) + "."
	set(client+"ssl.client.auth", "none")
	set(client+"sasl.enabled.mechanisms", "SCRAM-SHA-512")
	set(client+"scram-sha-512.sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required;")
	for _, l := range []string{kafkaBroker, kafkaController} {
		set("listener.name."+strings.ToLower(l)+".ssl.client.auth", "required")
	}
	set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
	set("allow.everyone.if.no.acl.found", false)
	// All nodes are one principal, so that a new one needs no other configuration on those that are there. The names of users
	// have no colon in them, so none of them can be this one.
	set("ssl.principal.mapping.rules", "RULE:^CN=[^,]+,O="+kafkaOrganization+"$/"+kafkaOrganization+"/,DEFAULT")
	set("super.users", "User:"+KafkaAdmin+";User:"+kafkaOrganization)
}

// kafkaTLS is the node's certificate, and whom it trusts.
func kafkaTLS(dir string, set func(string, any)) {
	set("ssl.keystore.type", "PEM")
	set("ssl.keystore.location", filepath.Join(dir, "keystore.pem"))
	set("ssl.truststore.type", "PEM")
	set("ssl.truststore.location", pkiFile("kafka.crt"))
	set("ssl.enabled.protocols", "TLSv1.3,TLSv1.2")
}

// kafkaClientProperties are those of a client of the listeners for brokers and controllers.
func kafkaClientProperties(dir string) []byte {
	var b bytes.Buffer
	set := func(key string, value any) { fmt.Fprintf(&b, "%s=%v\n", key, value) }
	set("security.protocol", "SSL")
	kafkaTLS(dir, set)
	return b.Bytes()
}

// kafkaStorage says where data is and in how many copies.
func kafkaStorage(in Input, set func(string, any), broker bool) {
	set("metadata.log.dir", KafkaMetadata)
	logs := []string{KafkaMetadata} // Kafka's default is below /tmp, for controllers as well
	if broker {
		disks, data := KafkaLogs(in.Node)
		// Also those of disks that are away: Kafka has to know that replicas are there, and not make them anew elsewhere.
		if logs = disks; data != "" {
			logs = []string{data}
		}
	}
	set("log.dirs", strings.Join(logs, ","))
	factor, inSync := in.Cluster.KafkaReplication()
	set("default.replication.factor", factor)
	set("min.insync.replicas", inSync)
	ownFactor, ownInSync := in.Cluster.KafkaOwnReplication()
	set("offsets.topic.replication.factor", ownFactor)
	set("transaction.state.log.replication.factor", ownFactor)
	set("transaction.state.log.min.isr", ownInSync)
	set("share.coordinator.state.topic.replication.factor", ownFactor)
	set("share.coordinator.state.topic.min.isr", ownInSync)
	set("auto.create.topics.enable", false)
	if !in.Cluster.Services.Kafka().AcknowledgeFromMemory {
		// By itself Kafka acknowledges what is in the page caches of all copies, which one power cut takes together.
		// With this each copy is on its disk first, those of followers, too.
		set("log.flush.interval.messages", 1)
	}
}

// KafkaLogs lists the log directories of a broker: one on each of its data disks in the order of its file, else data, one on
// the state partition.
func KafkaLogs(n *facts.Node) (disks []string, data string) {
	for _, d := range n.Disks {
		if d.Use == "kafka" {
			disks = append(disks, filepath.Join(kafkaDisks, strconv.Itoa(len(disks)+1), "log"))
		}
	}
	if len(disks) == 0 {
		data = kafkaData
	}
	return disks, data
}

// kafkaJVM is an argument file of java(1) with what is the same on every machine. Heap and collector are in kafka.env.
func kafkaJVM() []byte {
	args := []string{
		// systemd starts it again; a JVM without memory only looks alive.
		"-XX:+ExitOnOutOfMemoryError",
		// What would be written for jstat and others lies below /tmp.
		"-XX:-UsePerfData",
		"-Djava.awt.headless=true",
		"-Dlog4j2.configurationFile=" + filepath.Join(kafkaHome, "log4j2.properties"),
		"-cp", filepath.Join(kafkaHome, "libs/*"),
	}
	return []byte(strings.Join(args, "\n") + "\n")
}

// KafkaArchive is an argument file of java(1) for the archive of classes at path. The JVM writes it when it ends and there is
// none; one that it cannot use or write is not fatal (JEP 350), and one that a power cut damaged is found out by its checksum.
func KafkaArchive(path string) []byte {
	return []byte("-XX:+AutoCreateSharedArchive\n-XX:SharedArchiveFile=" + path + "\n-XX:+VerifySharedSpaces\n")
}

func hostPort(addr netip.Addr, port int) string {
	return net.JoinHostPort(addr.String(), strconv.Itoa(port))
}
