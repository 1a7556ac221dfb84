"""The stages that many methods share, each with the sentence that people who watch are told."""

ENCODE, COMPARE, PREPARE, REPRESENT, CLUSTER = "encode", "compare", "prepare", "represent", "cluster"
MAP, DESCRIBE = ENDING = ("map", "describe")  # with which every run ends

ABOUT = {
    ENCODE: "Every text becomes a vector: a list of numbers that stands for what it means.",
    COMPARE: "For every text the most similar ones are found, and from them where clusters start.",
    PREPARE: "The frozen layers of the language model read every text once; the result is cached.",
    REPRESENT: "The language model reads all texts once more, as it is now.",
    CLUSTER: "Texts whose vectors lie close together become a cluster.",
    MAP: "The texts are laid out on a map, similar ones side by side.",
    DESCRIBE: "Each cluster gets its topic words, its typical texts and a name.",
}
