package nodeapi

const (
	// UpdatePath takes a message of an update (package update) as the body of a POST, from an administrator. Its answer is
	// JSON (update.Answer): what became of it, or what the node lacks yet. The query may say reboot, dryRun and
	// giveUpWayBack.
	UpdatePath = "/v1/update"
	// BackPath has the node go back to the system before: POST without a body, from an administrator. Its answer is an
	// update.Answer. The query may say dryRun.
	BackPath = "/v1/back"
	// PiecesPath is followed by the SHA-256 of a piece of an update, which is the answer to a GET from a node. The query
	// says of which update (PieceOf). 404 is that the node does not have it yet, 410 that it will not have it.
	PiecesPath = "/v1/pieces/"
)

// PieceOf is the parameter of PiecesPath: the SHA-256 of the signed head of the update, in lower-case hexadecimal.
const PieceOf = "of"
