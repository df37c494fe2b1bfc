package prompt

import "testing"

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		who    string
		status int
		body   string
		want   Refusal
	}{
		{"vLLM", 404, `{"error":{"message":"The model ` + "`sql-adapter`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`, UnknownModel},
		{"vLLM before 0.10", 404, `{"object":"error","message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`, UnknownModel},
		{"OpenAI", 404, `{"error":{"message":"The model 'x' does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, UnknownModel},
		{"Ollama", 404, `{"error":"model 'x' not found"}`, UnknownModel},
		{"Anthropic", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`, UnknownModel},
		{"Gemini", 404, `[{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}]`, UnknownModel},
		{"Azure", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, UnknownModel},
		{"Mistral", 400, `{"object":"error","message":"Invalid model: x","type":"invalid_model","param":null,"code":"1500"}`, UnknownModel},
		{"SGLang", 400, `{"object":"error","message":"The following requested LoRA adapters are not loaded: ['x']","type":"BadRequestError","code":400}`, UnknownModel},

		{"LiteLLM", 400, `{"error":{"message":"/chat/completions: Invalid model name passed in model=sql. Call ` + "`/v1/models`" + ` to view available models for your key.","type":"invalid_request_error","param":"None","code":"400"}}`, UnknownModel},
		{"LiteLLM, of vLLM", 404, `{"error":{"message":"litellm.NotFoundError: NotFoundError: OpenAIException - The model ` + "`x`" + ` does not exist.","type":null,"code":"404"}}`, UnknownModel},
		{"LiteLLM, of vLLM's context", 400, `{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - This model's maximum context length is 4096 tokens.","type":null,"code":"400"}}`, ContextTooLong},
		{"Ray", 404, `{"error":{"message":"Could not find model with id sql","type":"OpenAIHTTPException","code":404}}`, UnknownModel},
		{"Ray", 404, `{"message":"Could not find model with id \"x\"."}`, UnknownModel},
		{"Triton", 400, `{"error":"Request for unknown model: 'x' is not found"}`, UnknownModel},
		{"SGLang", 400, `{"object":"error","message":"Got LoRA adapter that has never been loaded: x","type":"BadRequestError","code":400}`, UnknownModel},
		{"OpenAI", 400, `{"error":{"message":"invalid model ID","type":"invalid_request_error","param":null,"code":null}}`, UnknownModel},
		{"Xinference", 400, `{"detail":"Model not found in the model list, uid: x"}`, UnknownModel},

		{"vLLM", 400, `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 9000 tokens.","type":"BadRequestError","param":null,"code":400}}`, ContextTooLong},
		{"vLLM", 400, `{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}`, ContextTooLong},
		{"SGLang", 400, `{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","code":400}`, ContextTooLong},
		{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, ContextTooLong},
		{"OpenAI", 400, `{"error":{"message":"too many","type":"invalid_request_error","code":"context_length_exceeded"}}`, ContextTooLong},
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, ContextTooLong},
		{"Anthropic", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, ContextTooLong},
		{"TGI", 422, `{"error":"Input validation error: ` + "`inputs` tokens + `max_new_tokens`" + ` must be <= 2048. Given: 3000","error_type":"validation"}`, ContextTooLong},
		{"Gemini", 400, `{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}`, ContextTooLong},

		{"OpenAI, of a key", 404, `{"error":{"message":"The model 'x' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, OtherRefusal},
		{"OpenAI, of a project", 404, `{"error":{"message":"Project p does not have access to model x","type":"invalid_request_error","code":"model_not_found"}}`, OtherRefusal},
		{"its text without a code", 404, `{"error":{"message":"The model x does not exist or you do not have access to it.","code":404}}`, OtherRefusal},
		{"vLLM, of a stored answer", 404, `{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","code":404}}`, OtherRefusal},
		{"FastAPI, of a path", 404, `{"detail":"Not Found"}`, OtherRefusal},
		{"a client's own mistake", 400, `{"error":{"message":"messages: field required","type":"invalid_request_error"}}`, OtherRefusal},
		{"a client's text, quoted", 400, `{"error":{"message":"tool 'model x not found' has no name","type":"invalid_request_error"}}`, OtherRefusal},
		{"a parameter whose name begins like it", 400, `{"error":{"message":"model_kwargs not found","type":"x"}}`, OtherRefusal},
		{"a parameter of a model", 400, `{"error":{"message":"Invalid model parameter: temperature","type":"x"}}`, OtherRefusal},
		{"no such path at nginx", 404, "<html>404</html>", OtherRefusal},
		{"nothing", 404, "", OtherRefusal},
		{"no message", 404, `{"a":1}`, OtherRefusal},
		{"vLLM, a client's text", 400, `{"error":{"message":"[{'type': 'list_type', 'loc': ('body', 'messages'), 'msg': 'Input should be a valid list', 'input': 'context length'}]","type":"BadRequestError"}}`, OtherRefusal},
		{"SGLang, a client's text", 400, `{"object":"error","message":"Unknown role: context length","type":"BadRequestError","code":400}`, OtherRefusal},
		{"another status", 500, `{"error":{"code":"model_not_found","message":"x"}}`, OtherRefusal},
		{"another status", 429, `{"error":{"code":"context_length_exceeded","message":"x"}}`, OtherRefusal},
		{"the beginning of a long answer", 404, `{"error":{"code":"model_not_found","message":"The mod`, UnknownModel},
	} {
		if got, _ := ReadRefusal(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%s, %d %s: %v, want %v", c.who, c.status, c.body, got, c.want)
		}
	}
}

func FuzzReadRefusal(f *testing.F) {
	f.Add(404, []byte(`{"error":{"message":"The model x does not exist."}}`))
	f.Add(400, []byte(`{"error":"<400> : x"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if r, _ := ReadRefusal(status, body); r == UnknownModel && status != 400 && status != 404 && status != 422 &&
			status != 413 {
			t.Errorf("status %d is about a model", status)
		}
	})
}

func TestRefusedNames(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"The model ` + "`Sql`" + ` does not exist.","code":404}}`:                                     "Sql",
		`{"error":{"message":"/x: Invalid model name passed in model=gpt-4.1. Call ` + "`/v1/models`" + `","code":"400"}}`: "gpt-4.1",
		`{"error":"model \"llama3:latest\" not found, try pulling it first"}`:                                              "llama3:latest",
		`{"error":{"message":"The model 'x' does not exist","code":"model_not_found"}}`:                                    "x",
		`{"error":{"message":"models/x is not found for API version v1","code":404}}`:                                      "",
		`{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`:                                  "",
		`{"error":{"message":"The model ` + "`" + `cut","code":"model_not_found"}}`:                                        "cut",
	} {
		if why, name := ReadRefusal(404, []byte(body)); why != UnknownModel || name != want {
			t.Errorf("%s: %v of %q, want %q", body, why, name, want)
		}
	}
}
