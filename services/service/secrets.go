package service

// Usage is what a certificate may be used for (RFC 5280, section 4.2.1.12); the bits add up.
type Usage uint8

// Usages.
const (
	Server Usage = 1 << iota // id-kp-serverAuth
	Client                   // id-kp-clientAuth
)

// Kind is what an authority is.
type Kind string

// Kinds of authorities.
const (
	CA      Kind = "CA"      // ECDSA P-256 key with a CA certificate
	KeyPair Kind = "ECDSA"   // ECDSA P-256 key without a certificate
	Signer  Kind = "Ed25519" // Ed25519 key without a certificate
)

// Place is where a key is made.
type Place string

// Places.
const (
	// Operator makes the key in the operator's folder; it travels in the bundle.
	Operator Place = "operator"
	// OnNode makes the key on the node, which asks the authority for the certificate; no bundle ever holds it.
	OnNode Place = "node"
	// ForPerson makes key and certificate when a person asks for them, for some hours; nothing keeps them, since
	// nobody could take them back.
	ForPerson Place = "person"
)

// What stands in the place of a role.
const (
	EveryNode    = "every node"    // whatever its roles are
	OperatorOnly = "operator only" // no node; it stays in the operator's folder
)

// AuthorityRow is one row of what signs.
type AuthorityRow struct {
	// Name names it in commands and files.
	Name string
	Kind Kind
	// Title is the common name; generation 2 and later add their number.
	Title string
	// Service is the service that needs it; empty means every cluster does.
	Service string
	// Usage bounds what its certificates may be used for; 0 means no bound.
	Usage Usage
	// Users lists the roles whose nodes work with it: sign, present or verify; empty means all roles of the service.
	Users []string
	// Issuers lists the roles whose nodes sign with it, and so hold its key. They may be roles of another service.
	Issuers []string
	// Key is the bundle entry that holds the key on those nodes, as PKCS #8 PEM.
	Key string
}

// LeafRow is one row of end-entity certificates. Words in braces are filled in for each node (Words).
type LeafRow struct {
	// Name names it in commands.
	Name string
	// Authority is the authority that signs it.
	Authority string
	// Roles lists whose nodes get one each.
	Roles []string
	// With is a service that it is for, besides that of its authority; empty means that one alone.
	With string
	// CommonName and Organization are its whole subject.
	CommonName   string
	Organization []string
	// SANs are its subject alternative names: addresses where they parse as such, DNS names otherwise.
	SANs []string
	// Usage is its extended key usage.
	Usage Usage
	// Made is where the key is made.
	Made Place
	// Certificate and Key are the bundle entries: the chain without the root, and the key as PKCS #8, both PEM.
	Certificate, Key string
}

// HostNames is how others call a node.
var HostNames = []string{"{fqdn}", "{hostname}", "{node}", "{ips}"}

// OwnNames are HostNames and the names by which the node calls itself.
var OwnNames = append(HostNames[:len(HostNames):len(HostNames)], "localhost", "127.0.0.1", "::1")

// Each says how many secrets a row makes.
type Each string

// Multiplicities.
const (
	OneCluster Each = "cluster" // one, shared by all that get it
	OneNode    Each = "node"    // one for each node that gets it
	OneUser    Each = "user"    // one for each password entry that the service's settings name (Service.UserSecrets)
)

// SecretRow is one row of secrets that are no certificates. Once made they are never made again by themselves and never
// dropped: data may be unreadable without them.
type SecretRow struct {
	// Name names it in commands and, unless Entry says otherwise, in the bundle.
	Name string
	// Service is the service that needs it; empty means every cluster does.
	Service string
	// Roles lists whose nodes get it.
	Roles []string
	Each  Each
	// Entry is the bundle entry; {user-secret} is what the settings name.
	Entry string
	// Form is how it is made; see Forms.
	Form string
	// From names the row that it is derived from; where each user has one, it is that user's.
	From string
	// Entity is the user of Ceph whose key it is, by the node's name behind it: the key is made of From and of that name,
	// so that who has From knows every node's, and each node its own alone (package cephx).
	Entity string
	// Given allows the user to bring the value.
	Given bool
	// Length and Alphabet are how many letters a password has, and which; where Length is 0, it is as FormPassword says.
	Length   int
	Alphabet string
}

// Forms of secrets.
const (
	FormPassword = "password"         // 24 letters and digits: 142 bits
	FormKey      = "key"              // 32 bytes, base64
	FormUUID     = "uuid"             // RFC 9562, version 4
	FormCephx    = "cephx key"        // src/auth/Crypto.cc of Ceph, CryptoKey::encode: AES, base64
	FormKafkaID  = "kafka uuid"       // 16 bytes, URL-safe base64 (org.apache.kafka.common.Uuid)
	FormSCRAM    = "scram credential" // as kafka-storage.sh format --add-scram takes it, without the name
	FormAge      = "age identity"     // X25519 (C2SP, age.md), as age-keygen writes it
	FormRecovery = "recovery key"     // systemd-cryptenroll(1): 256 bits in eight groups of modhex
	FormGiven    = "given"            // nobody makes it up: the user brings it
)
