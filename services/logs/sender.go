package logs

import "spore/services/service"

// What every node runs where there is a store: the sender, and systemd's program that reads the journal for it, an
// instance for each store.
const (
	Sender, SenderUnit     = "spore-logs", "spore-logs.service"
	Uploader, UploaderUnit = "journal-upload", "journal-upload@.service"
	SenderPort             = 19532
)

// SenderCertificate and SenderKey are the bundle entries by which a node sends to stores.
const (
	SenderCertificate = "logs-sender-certificate"
	SenderKey         = "logs-sender-key"
)

var senders = []string{Sender, Uploader}

var senderPrograms = []service.Program{
	{
		Name: Sender, Unit: SenderUnit, Own: []string{Sender}, User: Sender,
		Secrets: []string{SenderCertificate, SenderKey},
		Ports: []service.Port{
			service.TCP(SenderPort, "logs: the journal of this node, from journal-upload alone").On(service.Loopback),
		},
	},
	{Name: Uploader, Unit: UploaderUnit, Packages: []string{"systemd-journal-remote"}, User: Uploader},
}

// senderLeaves are what a node sends by: it may do that, and nothing else. What a store says of who sent an entry, it
// has from the name in there.
var senderLeaves = []service.LeafRow{{
	Name: "logs-sender", Authority: "agent", Roles: []string{service.EveryNode}, With: Name, CommonName: "{node}",
	Organization: []string{"spore:sender"}, Usage: service.Client, Certificate: SenderCertificate, Key: SenderKey,
}}

// It reads its certificate again for a connection, and the authority of the nodes when it starts.
var senderRenewal = []service.Renewal{{
	Program: Sender, Leaves: service.Reads, Trust: map[string]service.Way{"agent.crt": service.Restarts},
}}
