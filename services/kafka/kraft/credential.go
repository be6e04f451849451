package kraft

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of SCRAM-SHA-512 in Kafka (org.apache.kafka.common.security.scram.internals.ScramMechanism).
const (
	leastIterations = 4096
	mostIterations  = 16384
	// maxCredential bounds the text in bytes.
	maxCredential = 1 << 10
	// saltedLength is the length of a salted password: that of a SHA-512.
	saltedLength = 64
)

// Credential is a password in salted form (RFC 5802, section 3).
type Credential struct {
	Iterations   int32
	Salt, Salted []byte
}

// ParseCredential reads a bundle's entry. Its errors never hold any of it.
func ParseCredential(text []byte) (Credential, error) {
	// As an argument of kafka-storage, without the name. No regular expression: it would be compiled at each start of the agent.
	rest, scram := strings.CutPrefix(strings.TrimSpace(string(text)), "SCRAM-SHA-512=[iterations=")
	iterations, rest, salted := strings.Cut(rest, `,salt="`)
	salt, rest, both := strings.Cut(rest, `",saltedpassword="`)
	password, end, whole := strings.Cut(rest, `"]`)
	if !scram || !salted || !both || !whole || end != "" || len(text) > maxCredential {
		return Credential{}, errors.New("it is not a salted password as `spore pki` makes them")
	}
	n, err := strconv.Atoi(iterations)
	if err != nil || n < leastIterations || n > mostIterations {
		return Credential{}, fmt.Errorf("its number of iterations is out of bounds: Kafka takes %d to %d", leastIterations, mostIterations)
	}
	c := Credential{Iterations: int32(n)}
	if c.Salt, err = base64.StdEncoding.DecodeString(salt); err != nil || len(c.Salt) == 0 {
		return Credential{}, errors.New("its salt is not base64")
	}
	if c.Salted, err = base64.StdEncoding.DecodeString(password); err != nil || len(c.Salted) != saltedLength {
		return Credential{}, fmt.Errorf("its salted password is not %d bytes in base64", saltedLength)
	}
	return c, nil
}
