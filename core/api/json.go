package api

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON reads requests in JSON of which every field has to exist. Connect's own codec passes over those that do not; a dry_run or if_version that is misspelled, or
// that an older server does not know, would then be a command without it. Name is that of the content type.
type strictJSON string

// strict are the content types of JSON, as Connect has them.
func strict() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithCodec(strictJSON("json")), connect.WithCodec(strictJSON("json; charset=utf-8"))}
}

// Name implements connect.Codec.
func (c strictJSON) Name() string { return string(c) }

// Marshal implements connect.Codec.
func (strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("write JSON: %T is no message", message)
	}
	return protojson.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (strictJSON) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("read JSON: %T is no message", message)
	}
	if len(data) == 0 {
		return errors.New("an empty text is no JSON object: send {}")
	}
	return protojson.Unmarshal(data, m)
}
