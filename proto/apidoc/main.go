// Command apidoc writes the API's reference and its OpenAPI document from the descriptors of its .proto files, with the comments in them, and from the examples beside them.
// It is run by `make proto`, which hands it the descriptors, and by `make proto-check`.
//
//	apidoc -descriptors FILE -examples FILE -out DIR
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// service is the service that is described.
const service = "setpoint.api.v1.ApiService"

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string, usage io.Writer) error {
	flags := flag.NewFlagSet("apidoc", flag.ContinueOnError)
	flags.SetOutput(usage)
	descriptors := flags.String("descriptors", "", "file of a FileDescriptorSet with source information")
	examples := flags.String("examples", "", "file of examples")
	out := flags.String("out", ".", "directory of the module, in which the files are written")
	if err := flags.Parse(args); err != nil {
		return err
	}
	api, err := load(*descriptors)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(*examples)
	if err != nil {
		return err
	}
	var shown []Example
	if err := json.Unmarshal(text, &shown); err != nil {
		return fmt.Errorf("read %s: %w", *examples, err)
	}
	document, err := openAPI(api, shown)
	if err != nil {
		return err
	}
	for path, content := range map[string]string{
		"docs/reference/api.md":      reference(api, shown),
		"proto/openapi/openapi.json": document,
	} {
		path = filepath.Join(*out, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// load reads descriptors and returns the service.
func load(path string) (protoreflect.ServiceDescriptor, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	d, err := files.FindDescriptorByName(service)
	if err != nil {
		return nil, fmt.Errorf("read %s: %s: %w", path, service, err)
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("read %s: %s is no service", path, service)
	}
	return s, nil
}
